//! Axes given on the command line, written over those of the plan.
//!
//! They become part of the plan's text, so that the stored run holds all that was measured and
//! mistakes are reported the same way as in a file.

use toml_edit::{Array, DocumentMut, Item, Value};

/// Axes that replace the plan's.
#[derive(clap::Args)]
pub(super) struct Overrides {
    /// Network functions: l2fwd, l3fwd or l3fwd:ROUTES, firewall or firewall:RULES
    #[arg(long, value_name = "NF", value_delimiter = ',')]
    nf: Vec<String>,
    /// Devices under test (see `weir dut list`)
    #[arg(long, value_name = "DUT", value_delimiter = ',')]
    dut: Vec<String>,
    /// A second device to measure against the plan's one, trial by trial in turns
    #[arg(long, value_name = "DUT2")]
    against: Option<String>,
    /// Wirings: vhost, memif, veth, nic, fed
    #[arg(long, value_name = "WIRING", value_delimiter = ',')]
    wiring: Vec<String>,
    /// Traces (see `weir trace list`) or capture files; A|B for a trace per direction
    #[arg(long, value_name = "TRACE", value_delimiter = ',')]
    trace: Vec<String>,
    /// Frame sizes in bytes with FCS, imix, web, gateway, or recorded for captures
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    size: Vec<String>,
    /// Directions with traffic: 1 or 2
    #[arg(long, value_name = "N", value_delimiter = ',')]
    directions: Vec<i64>,
    /// Huge pages: true, false or auto
    #[arg(long, value_name = "WHETHER", value_delimiter = ',')]
    huge_pages: Vec<String>,
    /// How often each point is measured
    #[arg(long, value_name = "N")]
    repeats: Option<i64>,
}

impl Overrides {
    /// The plan with these axes in place of its own.
    pub(super) fn apply(&self, plan: &str) -> Result<String, String> {
        let lists: [(&str, Vec<Value>); 7] = [
            ("nf", texts(&self.nf)),
            ("dut", texts(&self.dut)),
            ("wiring", texts(&self.wiring)),
            ("trace", texts(&self.trace)),
            ("size", words(&self.size)),
            ("directions", self.directions.iter().map(|number| (*number).into()).collect()),
            ("huge_pages", words(&self.huge_pages)),
        ];
        if self.repeats.is_none()
            && self.against.is_none()
            && lists.iter().all(|(_, values)| values.is_empty())
        {
            return Ok(plan.to_owned());
        }
        // A plan with a mistake in it is left alone: the plan's reader says where the mistake is.
        let Ok(mut document) = plan.parse::<DocumentMut>() else { return Ok(plan.to_owned()) };
        for (key, values) in lists {
            if !values.is_empty() {
                set(&mut document, key, Value::Array(Array::from_iter(values)));
            }
        }
        if let Some(against) = &self.against {
            set(&mut document, "against", against.as_str().into());
        }
        if let Some(repeats) = self.repeats {
            set(&mut document, "repeats", repeats.into());
        }
        Ok(document.to_string())
    }
}

fn set(document: &mut DocumentMut, key: &str, value: Value) {
    match document.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => {
            document.insert(key, Item::Value(value));
        }
    }
}

fn texts(values: &[String]) -> Vec<Value> {
    values.iter().map(|value| value.as_str().into()).collect()
}

/// Numbers and booleans as such, everything else as text.
fn words(values: &[String]) -> Vec<Value> {
    let word = |value: &String| match (value.parse::<i64>(), value.parse::<bool>()) {
        (Ok(number), _) => number.into(),
        (_, Ok(truth)) => truth.into(),
        _ => value.as_str().into(),
    };
    values.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides() -> Overrides {
        Overrides {
            nf: vec!["l2fwd".into()],
            dut: vec![],
            against: Some("testpmd".into()),
            wiring: vec![],
            trace: vec![],
            size: vec!["64".into(), "imix".into()],
            directions: vec![1],
            huge_pages: vec!["auto".into()],
            repeats: Some(3),
        }
    }

    #[test]
    fn given_axes_replace_the_plans_and_the_rest_stays() {
        let plan = "# mine\nnf = \"l3fwd\" # routing\nsize = [512]\ntrace = \"tr3i\"\n\n[mrr]\ntrials = 2\n";
        let text = overrides().apply(plan).unwrap();
        assert!(text.contains("nf = [\"l2fwd\"] # routing"), "{text}");
        assert!(text.contains("size = [64, \"imix\"]") && text.contains("trace = \"tr3i\""), "{text}");
        assert!(text.contains("against = \"testpmd\""), "{text}");
        assert!(text.contains("repeats = 3") && text.find("repeats") < text.find("[mrr]"), "{text}");
        assert!(text.contains("huge_pages = [\"auto\"]"), "{text}");
    }

    #[test]
    fn a_plan_that_cannot_be_read_is_left_to_the_plans_reader() {
        assert_eq!(overrides().apply("nf = ").unwrap(), "nf = ");
    }
}
