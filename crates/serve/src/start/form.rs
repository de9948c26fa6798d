//! A plan as a form, made from the schema of plans: a key that plans learn is in the form without a change here.
//!
//! Keys that take one value or a list of values are fields, and so are those of tables; what is neither (goals of one's own,
//! graphs of devices) is written as TOML below the fields.

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use toml_edit::{DocumentMut, Item};

/// What people fill in: the name of a field, and its text. Fields of tables have a dot: `throughput.goals`.
pub(crate) type Filled = BTreeMap<String, String>;

/// The field for what has no field.
pub(crate) const MORE: &str = "more";
/// What stands in the field of a table that is wanted.
const ON: &str = "on";
/// Fields that everybody needs, in this order.
const FIRST: [&str; 8] = ["name", "nf", "dut", "wiring", "trace", "size", "directions", "repeats"];

/// The form.
#[derive(Debug)]
pub(crate) struct Form {
    /// Keys of the plan itself: first those that everybody needs.
    pub(crate) fields: Vec<Field>,
    /// Its tables.
    pub(crate) tables: Vec<Table>,
}

/// A table of the plan.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) key: String,
    pub(crate) help: String,
    pub(crate) fields: Vec<Field>,
}

/// A key that takes one value, or a list.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) key: String,
    pub(crate) help: String,
    /// Values that are known by name.
    pub(crate) choices: Vec<String>,
    /// Whether it may be a list.
    pub(crate) list: bool,
    /// Whether everybody needs it.
    pub(crate) first: bool,
    takes: Takes,
}

/// What kinds of values a field takes, beside text.
#[derive(Clone, Copy, Debug, Default)]
struct Takes {
    integer: bool,
    number: bool,
    boolean: bool,
    text: bool,
    list: bool,
    object: bool,
}

/// A plan that was made from a form.
#[derive(Default)]
pub(crate) struct Composed {
    /// As TOML.
    pub(crate) text: String,
    /// Lines of it.
    count: usize,
    /// Lines, from 1 and in order, and the field that each came from.
    pub(crate) lines: Vec<(usize, String)>,
}

impl Form {
    /// The form of a schema of plans.
    pub(crate) fn of(schema: &Value) -> Self {
        let (mut fields, mut tables) = (Vec::new(), Vec::new());
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        for (key, property) in &properties {
            if let Some(field) = field(schema, key, property) {
                fields.push(field);
            } else if let Some(inside) = resolved(schema, property)["properties"].as_object() {
                let of_table =
                    inside.iter().filter_map(|(key, property)| field(schema, key, property)).collect();
                tables.push(Table { key: key.clone(), help: help(schema, property), fields: of_table });
            }
        }
        let place = |field: &Field| FIRST.iter().position(|key| *key == field.key).unwrap_or(FIRST.len());
        fields.iter_mut().for_each(|field| field.first = FIRST.contains(&field.key.as_str()));
        fields.sort_by(|a, b| place(a).cmp(&place(b)).then(a.key.cmp(&b.key)));
        Self { fields, tables }
    }

    /// The plan that was filled in.
    pub(crate) fn compose(&self, filled: &Filled) -> Composed {
        let mut made = Composed::default();
        made.blank("# Made with `weir serve`.");
        let of = |name: &str| filled.get(name).map(|text| text.trim()).filter(|text| !text.is_empty());
        for field in &self.fields {
            if let Some(text) = of(&field.key) {
                made.line(&field.key, &format!("{} = {}", field.key, field.toml(text)));
            }
        }
        let more = filled.get(MORE).map_or("", String::as_str).replace("\r\n", "\n");
        // Keys of the plan itself stand before its first table.
        let is_table = |line: &str| line.trim_start().starts_with('[');
        let (keys, tables): (Vec<&str>, Vec<&str>) = {
            let first = more.lines().position(is_table).unwrap_or(more.lines().count());
            (more.lines().take(first).collect(), more.lines().skip(first).collect())
        };
        keys.iter().filter(|line| !line.trim().is_empty()).for_each(|line| made.line(MORE, line));
        for table in &self.tables {
            let name = |field: &Field| format!("{}.{}", table.key, field.key);
            if of(&table.key) != Some(ON) {
                continue;
            }
            made.blank("");
            made.line(&table.key, &format!("[{}]", table.key));
            for field in &table.fields {
                if let Some(text) = of(&name(field)) {
                    made.line(&name(field), &format!("{} = {}", field.key, field.toml(text)));
                }
            }
        }
        if !tables.is_empty() {
            made.blank("");
        }
        tables.iter().for_each(|line| made.line(MORE, line));
        made
    }

    /// A plan, as it is filled in. What has no field comes as TOML; a text that is no TOML comes so whole.
    pub(crate) fn fill(&self, plan: &str) -> Filled {
        let Ok(mut document) = plan.parse::<DocumentMut>() else {
            return Filled::from([(MORE.to_owned(), plan.to_owned())]);
        };
        let mut filled = Filled::new();
        for field in &self.fields {
            if let Some(text) = document.get(&field.key).and_then(|item| plain(item, field.list)) {
                filled.insert(field.key.clone(), text);
                document.remove(&field.key);
            }
        }
        for table in &self.tables {
            let texts = document.get(&table.key).and_then(|item| table.texts(item));
            // A table of which some has no field stays together.
            if let Some(texts) = texts {
                document.remove(&table.key);
                filled.insert(table.key.clone(), ON.to_owned());
                filled.extend(texts);
            }
        }
        let rest = document.to_string();
        let said = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if rest.lines().any(|line| said(&line)) {
            let first = rest.lines().position(|line| said(&line)).unwrap_or(0);
            let rest = rest.lines().skip(first).collect::<Vec<_>>().join("\n");
            filled.insert(MORE.to_owned(), rest.trim_end().to_owned());
        }
        filled
    }
}

impl Table {
    /// What its fields hold; nothing where something has no field.
    fn texts(&self, item: &Item) -> Option<Vec<(String, String)>> {
        let text = |(key, item): (&str, &Item)| {
            let field = self.fields.iter().find(|field| field.key == key)?;
            Some((format!("{}.{key}", self.key), plain(item, field.list)?))
        };
        item.as_table()?.iter().map(text).collect()
    }
}

impl Composed {
    /// A line that comes from a field; what is filled in has no line ends, as it is a text of JSON.
    fn line(&mut self, field: &str, line: &str) {
        self.blank(line);
        self.lines.push((self.count, field.to_owned()));
    }

    /// A line that nobody filled in.
    fn blank(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.count += 1;
    }

    /// The field that a line came from.
    pub(crate) fn field(&self, line: usize) -> Option<&str> {
        let place = self.lines.binary_search_by_key(&line, |(number, _)| *number).ok()?;
        Some(&self.lines[place].1)
    }
}

impl Field {
    /// What was filled in, as TOML.
    fn toml(&self, text: &str) -> String {
        let items: Vec<String> = match self.list {
            true => text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| self.item(item))
                .collect(),
            false => vec![self.item(text)],
        };
        match items.as_slice() {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        }
    }

    fn item(&self, text: &str) -> String {
        let takes = self.takes;
        let plain = (takes.boolean && matches!(text, "true" | "false"))
            || (takes.integer && text.parse::<i64>().is_ok())
            || (takes.number && text.parse::<f64>().is_ok_and(f64::is_finite) && text.contains('.'));
        // Texts of JSON are texts of TOML.
        if plain { text.to_owned() } else { Value::from(text).to_string() }
    }
}

/// A field, where a key is one.
fn field(schema: &Value, key: &str, property: &Value) -> Option<Field> {
    let (mut takes, mut choices) = (Takes::default(), Vec::new());
    gather(schema, property, &mut takes, &mut choices, 0);
    let is_one = takes.integer || takes.number || takes.boolean || takes.text;
    // What may also be a table is a field for its other forms, unless it has none.
    (is_one && (takes.text || !takes.object)).then(|| Field {
        key: key.to_owned(),
        help: help(schema, property),
        choices,
        list: takes.list,
        first: false,
        takes,
    })
}

/// What a schema takes, and the values that it names.
fn gather(schema: &Value, part: &Value, takes: &mut Takes, choices: &mut Vec<String>, depth: usize) {
    if depth > 8 {
        return;
    }
    let part = resolved(schema, part);
    for kind in [&part["type"]]
        .into_iter()
        .flat_map(|kind| kind.as_array().cloned().unwrap_or_else(|| vec![kind.clone()]))
    {
        match kind.as_str() {
            Some("integer") => takes.integer = true,
            Some("number") => takes.number = true,
            Some("boolean") => takes.boolean = true,
            Some("string") => takes.text = true,
            Some("object") => takes.object = true,
            Some("array") => {
                let mut inside = Takes::default();
                gather(schema, &part["items"], &mut inside, choices, depth + 1);
                takes.list |= inside.text || inside.integer || inside.number || inside.boolean;
                takes.object |= inside.object && !inside.text;
                takes.text |= inside.text;
                takes.integer |= inside.integer;
                takes.number |= inside.number;
                takes.boolean |= inside.boolean;
            }
            _ => {}
        }
    }
    let named = part["enum"].as_array().into_iter().flatten().chain(part.get("const"));
    for value in named {
        takes.boolean |= value.is_boolean();
        takes.integer |= value.is_i64();
        takes.text |= value.is_string();
        note(choices, value);
    }
    part["examples"].as_array().into_iter().flatten().for_each(|value| note(choices, value));
    for way in ["anyOf", "oneOf"] {
        part[way]
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|part| gather(schema, part, takes, choices, depth + 1));
    }
}

fn note(choices: &mut Vec<String>, value: &Value) {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if !choices.contains(&text) && !value.is_object() && !value.is_array() {
        choices.push(text);
    }
}

/// A schema with what it refers to put in.
fn resolved(schema: &Value, part: &Value) -> Value {
    let name = part["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
    let Some(definition) = name.map(|name| &schema["$defs"][name]) else { return part.clone() };
    let mut whole: Map<String, Value> = definition.as_object().cloned().unwrap_or_default();
    let own = part.as_object().into_iter().flatten().filter(|(key, _)| *key != "$ref");
    whole.extend(own.map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(whole)
}

fn help(schema: &Value, property: &Value) -> String {
    let text = resolved(schema, property)["description"].as_str().unwrap_or_default().replace('\n', " ");
    text.strip_prefix("Axis: ").unwrap_or(&text).to_owned()
}

/// An item as text for a field: one value, or a list of them.
fn plain(item: &Item, list: bool) -> Option<String> {
    let one = |value: &toml_edit::Value| match value {
        toml_edit::Value::String(text) => {
            Some(text.value().clone()).filter(|text| !list || !text.contains(','))
        }
        toml_edit::Value::Integer(number) => Some(number.value().to_string()),
        toml_edit::Value::Float(number) => Some(number.value().to_string()),
        toml_edit::Value::Boolean(is) => Some(is.value().to_string()),
        _ => None,
    };
    match item.as_value()? {
        toml_edit::Value::Array(values) if list => {
            values.iter().map(one).collect::<Option<Vec<_>>>().map(|texts| texts.join(", "))
        }
        value => one(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Form {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/plan.schema.json");
        Form::of(&serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    #[test]
    fn every_key_of_plans_is_a_field_a_table_or_written_as_toml() {
        let form = form();
        let keys: Vec<&str> = form.fields.iter().map(|field| field.key.as_str()).collect();
        assert_eq!(keys[..8], FIRST);
        for key in ["chain", "huge_pages", "deployment", "frequency", "cores", "line_rate", "seed", "against"]
        {
            assert!(keys.contains(&key), "{key} is no field");
        }
        let tables: Vec<&str> = form.tables.iter().map(|table| table.key.as_str()).collect();
        for key in ["throughput", "mrr", "latency", "latency_curve", "soak", "simulated", "vhost"] {
            assert!(tables.contains(&key), "{key} is no table");
        }
        for key in ["goal", "device", "link"] {
            assert!(!keys.contains(&key) && !tables.contains(&key), "{key} is written as TOML");
        }
        let field = |key: &str| form.fields.iter().find(|field| field.key == key).unwrap();
        assert!(field("size").list && !field("name").list);
        assert_eq!(field("huge_pages").choices, ["true", "false", "auto"]);
        assert!(field("deployment").choices.contains(&"vhost".to_owned()) && !field("nf").help.is_empty());
    }

    #[test]
    fn a_plan_filled_in_and_composed_again_says_the_same() {
        let form = form();
        let plan = "name = \"mine\"\nnf = [\"l2fwd\", \"l3fwd:10\"]\nsize = [64, \"imix\"]\ntrace = \"tr3i\"\nhuge_pages = false\n\
                    stamped = 0.5\n# a remark\n[throughput]\ngoals = [\"ndr\", \"mine\"]\nbudget = \"5s\"\n[goal.mine]\nlike = \"ndr\"\n\
                    [simulated]\ncapacity = \"1Mpps\"\nparts = { base = 1 }\n";
        let filled = form.fill(plan);
        assert_eq!((filled["nf"].as_str(), filled["size"].as_str()), ("l2fwd, l3fwd:10", "64, imix"));
        assert_eq!((filled["throughput"].as_str(), filled["throughput.goals"].as_str()), ("on", "ndr, mine"));
        assert!(
            filled[MORE].starts_with("[goal.mine]") && filled[MORE].contains("capacity"),
            "{}",
            filled[MORE]
        );
        let composed = form.compose(&filled);
        let read = |text: &str| toml::from_str::<Value>(text).unwrap();
        assert_eq!(read(&composed.text), read(plan), "{}", composed.text);
        let line = composed.text.lines().position(|line| line.starts_with("goals")).unwrap() + 1;
        assert_eq!(composed.field(line), Some("throughput.goals"));
        assert_eq!(composed.field(1), None);
    }

    #[test]
    fn nonsense_in_a_field_stays_in_its_value() {
        let form = form();
        let hostile = "x\"\n[soak]\nload = \"1\u{7}";
        let filled = Filled::from([
            ("name".to_owned(), hostile.to_owned()),
            ("size".to_owned(), "64,,  ,1e9,true".to_owned()),
        ]);
        let composed = form.compose(&filled);
        let read: DocumentMut = composed.text.parse().unwrap();
        assert_eq!(read["name"].as_str(), Some(hostile));
        assert!(read.get("soak").is_none());
        assert_eq!(composed.text.lines().last(), Some("size = [64, \"1e9\", \"true\"]"));
        assert_eq!(form.fill("no toml = = ")[MORE], "no toml = = ");
    }
}
