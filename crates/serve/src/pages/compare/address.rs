//! The address of a comparison: `/compare?base=RUN/DEVICE&with=RUN/DEVICE&bound=3%`.

use crate::answer::Fault;
use crate::catalogue::short;
use form_urlencoded::Serializer;
use std::fmt;
use weir_store::Selector;
use weir_trial::run::Run;
use weir_units::Ratio;

/// Most sides beside the baseline: more are no comparison that anybody reads.
const MOST: usize = 8;

/// A side: a run, or one device of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Which {
    pub(super) run: Selector,
    pub(super) dut: Option<String>,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.run.fmt(f)?;
        self.dut.as_ref().map_or(Ok(()), |dut| write!(f, "/{dut}"))
    }
}

impl Which {
    /// A run by its address.
    pub(super) fn of(name: &str) -> Self {
        Self { run: Selector::Name(name.to_owned()), dut: None }
    }

    /// A run by what names it everywhere.
    pub(super) fn of_run(run: &Run, dut: Option<String>) -> Self {
        let run =
            if run.uuid.is_empty() { Selector::Number(run.id) } else { Selector::Name(run.uuid.clone()) };
        Self { run, dut }
    }

    fn read(text: &str) -> Result<Self, Fault> {
        let (run, dut) = text.split_once('/').map_or((text, None), |(run, dut)| (run, Some(dut)));
        if dut.is_some_and(str::is_empty) {
            return Err(Fault::Bad(format!("`{}` names no device after the slash", short(text, 60))));
        }
        Ok(Self { run: super::super::selector(run)?, dut: dut.map(str::to_owned) })
    }
}

/// What an address asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Asked {
    pub(super) base: Option<Which>,
    pub(super) with: Vec<Which>,
    /// Ticked in the list: sides whose roles are to be chosen.
    pub(super) ticked: Vec<Which>,
    /// How much worse a side may be.
    pub(super) bound: Option<Ratio>,
}

impl Asked {
    /// Reads an address.
    pub(super) fn read(query: &str) -> Result<Self, Fault> {
        let mut asked = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim();
            if value.is_empty() {
                continue;
            }
            match &*key {
                "base" => asked.base = Some(Which::read(value)?),
                "with" => push(&mut asked.with, Which::read(value)?),
                "run" => push(&mut asked.ticked, Which::read(value)?),
                "bound" => {
                    let bound =
                        value.parse().ok().filter(|bound: &Ratio| bound.0.is_finite() && bound.0 > 0.0);
                    let wrong =
                        || Fault::Bad(format!("`bound={}`: a bound is a share such as 3%", short(value, 40)));
                    asked.bound = Some(bound.ok_or_else(wrong)?);
                }
                other => {
                    return Err(Fault::Bad(format!(
                        "a comparison knows base, with, run and bound, and no `{}`",
                        short(other, 40)
                    )));
                }
            }
        }
        asked.checked()
    }

    /// It, where it has no more sides than are compared.
    pub(super) fn checked(self) -> Result<Self, Fault> {
        if self.with.len() > MOST || self.ticked.len() > MOST + 1 {
            return Err(Fault::Bad(format!("{MOST} sides at most are compared with a baseline")));
        }
        Ok(self)
    }

    /// The address again.
    pub(super) fn address(&self) -> String {
        let mut query = Serializer::new(String::new());
        for (key, sides) in [("base", self.base.as_slice()), ("with", &self.with), ("run", &self.ticked)] {
            sides.iter().for_each(|side| {
                query.append_pair(key, &side.to_string());
            });
        }
        if let Some(bound) = self.bound_text() {
            query.append_pair("bound", &bound);
        }
        format!("/compare?{}", query.finish())
    }

    /// The bound as it is written.
    pub(super) fn bound_text(&self) -> Option<String> {
        self.bound.map(|bound| format!("{}%", bound.0 * 100.0))
    }

    /// With another baseline, by its place among the others; the old one takes its place.
    pub(super) fn with_base(&self, place: usize) -> Self {
        let mut asked = self.clone();
        if let (Some(base), Some(other)) = (&mut asked.base, asked.with.get_mut(place)) {
            std::mem::swap(base, other);
        }
        asked
    }

    /// Without one of the others.
    pub(super) fn without(&self, place: usize) -> Self {
        let mut asked = self.clone();
        if place < asked.with.len() {
            asked.with.remove(place);
        }
        asked
    }
}

fn push(sides: &mut Vec<Which>, side: Which) {
    if !sides.contains(&side) {
        sides.push(side);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_written_again() {
        let query = "base=otter%2Fnf&with=7&with=%40last~1%2Fovs-dpdk&bound=3%25";
        let asked = Asked::read(query).unwrap();
        assert_eq!(asked.address(), format!("/compare?{}", query.replace('~', "%7E")));
        assert_eq!(
            (asked.with[0].run.clone(), asked.with[1].dut.as_deref()),
            (Selector::Number(7), Some("ovs-dpdk"))
        );
        let turned = asked.with_base(1);
        assert_eq!(
            (&turned.base, &turned.with[1]),
            (&Some(asked.with[1].clone()), asked.base.as_ref().unwrap())
        );
        assert_eq!(asked.without(0).with, [asked.with[1].clone()]);
        assert_eq!(asked.without(9), asked);
    }

    #[test]
    fn nonsense_is_refused() {
        for query in
            ["base=otter%2F", "base=%40first", "bound=x", "bound=-3%25", "bound=0", "bound=inf", "bases=1"]
        {
            assert!(Asked::read(query).is_err(), "{query}");
        }
        let many: String = (0..20).map(|n| format!("with={n}&")).collect();
        assert!(Asked::read(&many).is_err());
        assert_eq!(Asked::read("base=&with=+").unwrap(), Asked::default());
    }
}
