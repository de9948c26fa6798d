//! What a site adds to a page that it shows (`weir serve`); a page in a file has nothing of it.

use crate::exhibit::Form;
use crate::svg::style;
use maud::{Markup, PreEscaped};

/// Writes what stands under a plot or a table, by its identifier and the forms it is to be had in ([`crate::Exhibit`]).
pub type Foot<'a> = dyn Fn(&str, &[Form]) -> String + 'a;

/// What a site puts around a page. All of it is HTML.
#[derive(Clone, Copy, Default)]
pub struct Around<'a> {
    /// At the end of `<head>`: the site's style. With it the page leaves its security policy to the site, which sends one as
    /// a header.
    pub head: &'a str,
    /// Before the page's heading.
    pub top: &'a str,
    /// After the heading: what can be done with the run.
    pub beside: &'a str,
    /// Under a plot or a table.
    pub foot: Option<&'a Foot<'a>>,
    /// Whether `beside` says how the runs' environments differ, so that the page does not.
    pub compares: bool,
}

impl std::fmt::Debug for Around<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Around").field("head", &self.head).field("top", &self.top).finish_non_exhaustive()
    }
}

impl Around<'_> {
    /// Whether a site shows the page.
    pub(crate) fn is_site(&self) -> bool {
        !self.head.is_empty()
    }

    /// What stands under an exhibit.
    pub(crate) fn under(&self, id: &str, forms: &[Form]) -> Markup {
        PreEscaped(self.foot.map_or_else(String::new, |foot| foot(id, forms)))
    }
}

/// The style of a page, for the other pages of a site: colours as custom properties (`--ink`, `--paper`, `--link`…) for light
/// and dark screens, text, tables, plots, print.
pub fn style() -> String {
    [&style::properties(), crate::page::STYLE, style::RULES, &style::hues()].concat()
}
