//! Building the decision tree of [`super::Acl`].
//!
//! Each split is the one with the least expected cost, as ray tracing's kd-trees do it (the surface
//! area heuristic): a node's cost is one step, plus the tests of each side weighted by the share of
//! the box that lies there. So what no rule narrows (ports that no rule names, say) is cut off
//! first, and the rules' own corner is searched deeper. The share of the box is a guess at the
//! traffic; a wrong guess costs steps, not answers. Depth is bounded by [`max_depth`], copies of
//! rules by [`budget`], each divided between the two sides by their rules.

use super::{Bounds, FIELDS, Leaf, Step, Test, Tree};
use weir_wire::table::Action;

/// Tests that the leaves may hold in all, copies included.
pub(super) const fn budget(tests: usize) -> usize {
    8 * tests + 256
}

/// Splits between the root and any leaf at most.
fn max_depth(tests: usize) -> u32 {
    16 + 2 * tests.max(1).ilog2()
}

/// Cost of a split, in tests.
const STEP: f64 = 1.0;

/// A split: what is below the threshold goes low.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    field: usize,
    threshold: u32,
    cost: f64,
}

/// A node to be made.
struct Task {
    node: usize,
    bounds: Bounds,
    /// The tests that reach it, in order; the last one covers it, and no other does.
    tests: Vec<u32>,
    budget: usize,
    depth: u32,
}

/// Builds the tree; the last of `tests` must cover everything.
pub(super) fn tree(tests: &[Test]) -> Tree {
    let all: Vec<u32> = (0..tests.len() as u32).collect();
    let mut builder = Builder { tests, tree: Tree::default() };
    builder.add_node();
    let mut tasks = vec![Task {
        node: 0,
        bounds: Bounds::ALL,
        tests: builder.reaching(&Bounds::ALL, &all),
        budget: budget(tests.len()),
        depth: max_depth(tests.len()),
    }];
    while let Some(task) = tasks.pop() {
        match builder.split(&task) {
            Some(children) => tasks.extend(children),
            None => builder.leaf(&task),
        }
    }
    builder.tree
}

struct Builder<'a> {
    tests: &'a [Test],
    tree: Tree,
}

impl Builder<'_> {
    /// Adds a node, a leaf until its task is done, and returns its number.
    fn add_node(&mut self) -> usize {
        let node = self.tree.steps.len();
        self.tree.steps.push(Step::stay(node as u32));
        self.tree.leaves.push(Leaf { first: 0, count: 0, last: Action::Deny });
        node
    }

    fn bounds(&self, test: u32) -> &Bounds {
        &self.tests[test as usize].bounds
    }

    /// Of the given tests those that a packet within the bounds may pass, up to the first that it must.
    fn reaching(&self, bounds: &Bounds, tests: &[u32]) -> Vec<u32> {
        let mut reaching = Vec::new();
        for &test in tests {
            let other = self.bounds(test);
            if (0..FIELDS).all(|f| other.first[f] <= bounds.last[f] && other.last[f] >= bounds.first[f]) {
                reaching.push(test);
                if other.covers(bounds) {
                    break;
                }
            }
        }
        reaching
    }

    fn leaf(&mut self, task: &Task) {
        let Some((last, tests)) = task.tests.split_last() else { return };
        self.tree.leaves[task.node] = Leaf {
            first: self.tree.tests.len() as u32,
            count: tests.len() as u32,
            last: self.tests[*last as usize].action,
        };
        let tests = tests.iter().map(|test| self.tests[*test as usize]);
        self.tree.tests.extend(tests);
    }

    /// Splits a node in two tasks, where that pays and the budget allows it.
    fn split(&mut self, task: &Task) -> Option<[Task; 2]> {
        let uncertain = task.tests.len() - 1;
        if uncertain == 0 || task.depth == 0 {
            return None;
        }
        let cut = (0..FIELDS)
            .filter_map(|field| self.best_cut(task, field))
            .min_by(|one, other| one.cost.total_cmp(&other.cost))
            .filter(|cut| cut.cost < uncertain as f64)?;
        let (mut low, mut high) = (task.bounds, task.bounds);
        low.last[cut.field] = cut.threshold - 1;
        high.first[cut.field] = cut.threshold;
        let sides = [low, high].map(|bounds| (bounds, self.reaching(&bounds, &task.tests)));
        let total = sides[0].1.len() + sides[1].1.len();
        if total > task.budget {
            return None;
        }
        let node = self.add_node();
        self.add_node();
        self.tree.steps[task.node] =
            Step { field: cut.field as u32, threshold: cut.threshold, low: node as u32 };
        let mut side = 0;
        Some(sides.map(|(bounds, tests)| {
            let budget = task.budget * tests.len() / total;
            side += 1;
            Task { node: node + side - 1, bounds, tests, budget, depth: task.depth - 1 }
        }))
    }

    /// The best threshold in one field: every place where a rule begins or has ended.
    fn best_cut(&self, task: &Task, field: usize) -> Option<Cut> {
        let (first, last) = (task.bounds.first[field], task.bounds.last[field]);
        let uncertain = &task.tests[..task.tests.len() - 1];
        let mut begins: Vec<u32> =
            uncertain.iter().map(|t| self.bounds(*t).first[field].max(first)).collect();
        let mut ends: Vec<u32> = uncertain.iter().map(|t| self.bounds(*t).last[field].min(last)).collect();
        begins.sort_unstable();
        ends.sort_unstable();
        let mut thresholds: Vec<u32> =
            begins.iter().copied().chain(ends.iter().filter_map(|end| end.checked_add(1))).collect();
        thresholds.retain(|threshold| *threshold > first && *threshold <= last);
        thresholds.sort_unstable();
        thresholds.dedup();
        let width = f64::from(last - first) + 1.0;
        let (mut begun, mut ended) = (0, 0);
        let cuts = thresholds.into_iter().map(|threshold| {
            while begins.get(begun).is_some_and(|begin| *begin < threshold) {
                begun += 1;
            }
            while ends.get(ended).is_some_and(|end| *end < threshold) {
                ended += 1;
            }
            let share = f64::from(threshold - first) / width;
            let tests = share * begun as f64 + (1.0 - share) * (uncertain.len() - ended) as f64;
            Cut { field, threshold, cost: STEP + tests }
        });
        cuts.min_by(|one, other| one.cost.total_cmp(&other.cost))
    }
}
