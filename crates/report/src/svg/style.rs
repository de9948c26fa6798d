//! Colours and rules of drawings: one home for the page and for a drawing that stands alone.

use super::HUES;

/// The rules of everything drawn; colours are named as `var(--name)`.
pub(crate) const RULES: &str = include_str!("drawing.css");

/// Each colour's name, as it is on paper and on a dark screen.
const COLOURS: [(&str, &str, &str); 18] = [
    ("paper", "#fff", "#12161b"),
    ("ink", "#1b1f24", "#e4e8ec"),
    ("soft", "#57606a", "#a0aab4"),
    ("rule", "#d5dae0", "#343c45"),
    ("fill", "#f5f7f9", "#1b2127"),
    ("link", "#0a5ea8", "#7cc0ff"),
    ("good", "#11643c", "#6fd39d"),
    ("bad", "#a12a12", "#ff9b85"),
    ("warn", "#fff4d6", "#33290a"),
    ("warn-rule", "#d9a406", "#b98d10"),
    ("c0", "#0067a8", "#5db8f5"),
    ("c1", "#c44e00", "#f59b57"),
    ("c2", "#00795b", "#37cfa0"),
    ("c3", "#a83f83", "#e79cc9"),
    ("c4", "#7d6400", "#e6d04a"),
    ("c5", "#5b48c2", "#b3a5ff"),
    ("c6", "#3a3f45", "#d5d9de"),
    ("c7", "#a3263a", "#ff8a95"),
];

/// The colour of a hue on paper, six hexadecimal digits.
pub(crate) fn on_paper(hue: usize) -> String {
    let name = format!("c{}", hue % HUES);
    let colour = COLOURS.iter().find(|(known, ..)| *known == name).map_or("#000000", |(_, light, _)| light);
    colour.trim_start_matches('#').to_uppercase()
}

/// The colours as custom properties, which the page's rules name.
pub(crate) fn properties() -> String {
    let of = |pick: fn(&(&'static str, &'static str, &'static str)) -> &'static str| -> String {
        COLOURS.iter().map(|colour| format!("--{}:{};", colour.0, pick(colour))).collect()
    };
    format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n",
        of(|colour| colour.1),
        of(|colour| colour.2)
    )
}

/// The rules that give each hue its colour.
pub(crate) fn hues() -> String {
    (0..HUES).map(|hue| format!(".h{hue}{{--c:var(--c{hue})}}.p{hue}{{fill:var(--c{hue})}}\n")).collect()
}

/// The rules of a drawing that stands alone, with every colour written out: programs that make paper of it know no
/// custom properties. On a dark screen the dark colours hold.
pub(super) fn alone() -> String {
    let mut rules = format!(".paper{{fill:var(--paper)}}\n{RULES}");
    for hue in 0..HUES {
        rules.push_str(&format!(".p{hue}{{fill:var(--c{hue})}}\n"));
        for rule in RULES.lines().filter(|rule| rule.contains("var(--c)")) {
            let (selectors, body) = rule.split_once('{').expect("a rule has a body");
            let of_hue = |selector: &str| format!(".h{hue}{}", within(selector));
            let selectors: Vec<String> = selectors.split(',').map(of_hue).collect();
            rules.push_str(&format!(
                "{}{{{}\n",
                selectors.join(","),
                body.replace("var(--c)", &format!("var(--c{hue})"))
            ));
        }
    }
    let rules: String =
        rules.lines().filter(|rule| !rule.contains("var(--c)")).map(|rule| format!("{rule}\n")).collect();
    let with = |dark: bool| {
        COLOURS.iter().fold(rules.clone(), |rules, (name, light, night)| {
            rules.replace(&format!("var(--{name})"), if dark { night } else { light })
        })
    };
    let dark: String = with(true).lines().filter(|rule| rule.contains('#')).collect::<Vec<_>>().join("\n");
    format!("{}@media screen and (prefers-color-scheme:dark){{\n{dark}\n}}\n", with(false))
}

/// A selector as it continues one of a hue: a class that stands on the hue's own element joins it.
fn within(selector: &str) -> String {
    match selector.split_once(' ') {
        Some((own @ (".marker" | ".series" | ".key"), rest)) => format!("{own} {rest}"),
        _ => format!(" {selector}"),
    }
}
