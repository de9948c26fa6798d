//! Values as people write them in a plan: one or a list, numbers with their units, words.
//!
//! Every refusal says what was written and what may be written; the TOML reader adds the place.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor, value};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::str::FromStr;
use toml::Spanned;
use weir_diagnostic::suggestion;
use weir_methods::latency::LoadSpec;
use weir_traffic::Shape;
use weir_traffic::trace::Sizes;
use weir_units::{FrameSize, LineRate, Nanos, Pps, Ratio};

/// One value, or several in brackets. A single value has no place of its own.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(pub(crate) Vec<(Option<Range<usize>>, T)>);

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_bool<E: Error>(self, one: bool) -> Result<Self::Value, E> {
        Ok(List(vec![(None, T::deserialize(value::BoolDeserializer::new(one))?)]))
    }

    fn visit_i64<E: Error>(self, one: i64) -> Result<Self::Value, E> {
        Ok(List(vec![(None, T::deserialize(value::I64Deserializer::new(one))?)]))
    }

    fn visit_str<E: Error>(self, one: &str) -> Result<Self::Value, E> {
        Ok(List(vec![(None, T::deserialize(value::StrDeserializer::new(one))?)]))
    }

    fn visit_map<A: MapAccess<'de>>(self, one: A) -> Result<Self::Value, A::Error> {
        Ok(List(vec![(None, T::deserialize(value::MapAccessDeserializer::new(one))?)]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(element) = list.next_element::<Spanned<T>>()? {
            values.push((Some(element.span()), element.into_inner()));
        }
        Ok(List(values))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("ListOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({
            "anyOf": [one, { "type": "array", "items": one, "minItems": 1, "uniqueItems": true }]
        })
    }
}

/// A type written as text in a plan.
pub(super) trait Written: FromStr<Err: fmt::Display> {
    /// Name in the schema.
    const NAME: &'static str;
    /// What may be written.
    const EXAMPLES: &'static [&'static str];
    /// Whether a bare number is understood, because the value has no unit.
    fn of_number(_number: f64) -> Option<Self> {
        None
    }
}

impl Written for Pps {
    const NAME: &'static str = "PacketRate";
    const EXAMPLES: &'static [&'static str] = &["9001pps", "250kpps", "1.5Mpps"];
}

impl Written for Nanos {
    const NAME: &'static str = "Duration";
    const EXAMPLES: &'static [&'static str] = &["250ms", "1s", "2min"];
}

impl Written for LineRate {
    const NAME: &'static str = "LineRate";
    const EXAMPLES: &'static [&'static str] = &["1G", "2.5G", "10G", "25G", "40G", "100G"];
}

impl Written for Shape {
    const NAME: &'static str = "Shape";
    const EXAMPLES: &'static [&'static str] = &["constant", "poisson", "bursts:32", "recorded"];
}

impl Written for LoadSpec {
    const NAME: &'static str = "Load";
    const EXAMPLES: &'static [&'static str] = &["50% ndr", "100kpps", "2Gbps", "10% line"];
}

impl Written for Ratio {
    const NAME: &'static str = "Ratio";
    const EXAMPLES: &'static [&'static str] = &["0.5%", "0.005"];

    fn of_number(number: f64) -> Option<Self> {
        (0.0..=1.0).contains(&number).then_some(Self(number))
    }
}

/// A value written as text, such as `"250ms"`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<T>(pub(crate) T);

struct TextVisitor<T>(PhantomData<T>);

impl<T: Written> TextVisitor<T> {
    fn number<E: Error>(number: f64) -> Result<Text<T>, E> {
        T::of_number(number).map(Text).ok_or_else(|| {
            E::custom(format!("`{number}` is not understood; write {}", examples(T::EXAMPLES)))
        })
    }
}

/// `"a", "b" or "c"`, as in TOML.
fn examples(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("\"{text}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

impl<T: Written> Visitor<'_> for TextVisitor<T> {
    type Value = Text<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&examples(T::EXAMPLES))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse().map(Text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Self::number(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Self::number(number)
    }
}

impl<'de, T: Written> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor(PhantomData))
    }
}

impl<T: Written> JsonSchema for Text<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        if T::of_number(0.0).is_some() {
            return json_schema!({ "anyOf": [
                { "type": "string", "examples": T::EXAMPLES },
                { "type": "number", "minimum": 0, "maximum": 1 }
            ]});
        }
        json_schema!({ "type": "string", "examples": T::EXAMPLES })
    }
}

/// Sizes as written: a number of bytes, or a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizesText(pub(super) Sizes);

/// The sizes that are words.
const SIZE_WORDS: [&str; 4] = ["imix", "web", "gateway", "recorded"];

impl fmt::Display for SizesText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = SizesText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes with FCS (64), \"imix\", \"web\", \"gateway\" or \"recorded\"")
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<SizesText, E> {
        let bytes = u32::try_from(bytes).map_err(|_| {
            let (min, max) = (FrameSize::MIN, FrameSize::MAX);
            E::custom(format!("frame size {bytes} B is impossible; sizes are {min} to {max}"))
        })?;
        FrameSize::new(bytes).map(|size| SizesText(Sizes::Fixed(size))).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SizesText, E> {
        text.parse()
            .map(SizesText)
            .map_err(|error| E::custom(format!("{error}{}", suggestion(text, SIZE_WORDS))))
    }
}

impl<'de> Deserialize<'de> for SizesText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

impl JsonSchema for SizesText {
    fn schema_name() -> Cow<'static, str> {
        "Sizes".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "integer", "minimum": FrameSize::MIN.bytes(), "maximum": FrameSize::MAX.bytes() },
            { "enum": SIZE_WORDS }
        ]})
    }
}

/// Whether the lab and the DUT use huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HugePages {
    /// They do not.
    Off,
    /// They do; without huge pages on the machine the point cannot be measured.
    On,
    /// They do where the machine has them.
    Auto,
}

impl fmt::Display for HugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Off => "false",
            Self::On => "true",
            Self::Auto => "auto",
        })
    }
}

struct HugePagesVisitor;

impl Visitor<'_> for HugePagesVisitor {
    type Value = HugePages;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or \"auto\"")
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<HugePages, E> {
        Ok(if on { HugePages::On } else { HugePages::Off })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<HugePages, E> {
        match text {
            "auto" => Ok(HugePages::Auto),
            _ => Err(E::custom(format!("`{text}` is not understood; write true, false or \"auto\""))),
        }
    }
}

impl<'de> Deserialize<'de> for HugePages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HugePagesVisitor)
    }
}

impl JsonSchema for HugePages {
    fn schema_name() -> Cow<'static, str> {
        "HugePages".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [true, false, "auto"] })
    }
}
