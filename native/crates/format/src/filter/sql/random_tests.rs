//! Random expressions and messages, and how expressions are written down.

use proptest::prelude::*;
use std::collections::HashMap;

/// All texts that occur, as properties and as literals, and what Java's `Long.valueOf` and
/// `Double.valueOf` make of them.
pub(super) const TEXTS: &[(&str, Option<i64>, Option<f64>)] = &[
    ("", None, None),
    ("x", None, None),
    ("it's", None, None),
    ("axb", None, None),
    ("true", None, None),
    ("TRUE", None, None),
    ("日本", None, None),
    ("1", Some(1), Some(1.0)),
    ("2", Some(2), Some(2.0)),
    ("+2", Some(2), Some(2.0)),
    ("-0", Some(0), Some(-0.0)),
    ("0", Some(0), Some(0.0)),
    ("10", Some(10), Some(10.0)),
    ("010", Some(10), Some(10.0)),
    ("2147483648", Some(2_147_483_648), Some(2_147_483_648.0)),
    (
        "9223372036854775808",
        None,
        Some(9_223_372_036_854_775_808.0),
    ),
    ("2.5", None, Some(2.5)),
    ("2d", None, Some(2.0)),
    (" 2 ", None, Some(2.0)),
    ("1e1", None, Some(10.0)),
    ("0x1p1", None, Some(2.0)),
    ("NaN", None, Some(f64::NAN)),
    ("-Infinity", None, Some(f64::NEG_INFINITY)),
];

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(&'static str),
}

use Value::*;

pub(super) const LITERALS: &[(&str, Value)] = &[
    ("0", Int(0)),
    ("1", Int(1)),
    ("2L", Int(2)),
    ("10", Int(10)),
    ("2147483648", Long(2_147_483_648)),
    ("1.0", Double(1.0)),
    ("2.5", Double(2.5)),
    ("1e1", Double(10.0)),
    ("2.", Double(2.0)),
    // From here on: no numbers.
    ("TRUE", Bool(true)),
    ("false", Bool(false)),
    ("NULL", Null),
    ("''", Text("")),
    ("'x'", Text("x")),
    ("'it''s'", Text("it's")),
    ("'1'", Text("1")),
    ("'2.5'", Text("2.5")),
    ("'true'", Text("true")),
];
const NUMBERS: usize = 9;
const NAMES: [&str; 3] = ["a", "b", "_c1"];

#[derive(Clone, Debug)]
pub(super) enum Ast {
    Literal(usize),
    Property(&'static str),
    Plus(Box<Ast>),
    Minus(Box<Ast>),
    Not(Box<Ast>),
    Or(Box<[Ast; 2]>),
    And(Box<[Ast; 2]>),
    Equal(Box<[Ast; 2]>, bool),
    IsNull(Box<Ast>, bool),
    Order(Box<[Ast; 2]>, &'static str),
    Between(Box<[Ast; 3]>, bool),
    In(Box<Ast>, Vec<&'static str>, bool),
    Search(Box<Ast>, &'static str, &'static str, bool),
}

/// The properties of a message.
pub(super) type Props = HashMap<&'static str, &'static str>;

/// Writes an expression down, with what may stand between and around its words.
pub(super) struct Writer {
    pub random: u64,
    pub text: String,
}

impl Writer {
    fn one_of(&mut self, count: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.random >> 33) % count
    }

    fn word(&mut self, word: &str) {
        let joint = (
            self.text.chars().last().unwrap_or(' '),
            word.chars().next().unwrap_or(' '),
        );
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_.'".contains(c);
        let touch = match joint {
            ('-', '-') => false,
            (l, r) if "<>=".contains(l) => !"<>=".contains(r),
            (l, r) => !(is_word(l) && is_word(r)),
        };
        let between = match self.one_of(8) {
            0 => "\t\r\n",
            1 => " /* AND '-- */",
            2 => " -- it's NULL\n",
            3 | 4 if touch => "",
            _ => " ",
        };
        self.text += between;
        self.text += word;
    }

    fn keyword(&mut self, word: &str) {
        match self.one_of(3) {
            0 => self.word(&word.to_lowercase()),
            1 => self.word(&(word[..1].to_string() + &word[1..].to_lowercase())),
            _ => self.word(word),
        }
    }

    fn keyword_if(&mut self, there: bool, word: &str) {
        if there {
            self.keyword(word);
        }
    }

    fn quoted(&mut self, text: &str) {
        self.word(&format!("'{}'", text.replace('\'', "''")));
    }

    /// Writes an expression where only those that bind at least as tightly as `level` may stand.
    pub fn write(&mut self, ast: &Ast, level: u32) {
        let own = match ast {
            Ast::Or(_) => 0,
            Ast::And(_) => 1,
            Ast::Equal(..) | Ast::IsNull(..) => 2,
            Ast::Order(..) | Ast::Between(..) | Ast::In(..) | Ast::Search(..) => 3,
            _ => 4,
        };
        if own < level || self.one_of(6) == 0 {
            self.word("(");
            self.write(ast, 0);
            self.word(")");
            return;
        }
        match ast {
            Ast::Literal(i) => self.word(LITERALS[*i].0),
            Ast::Property(name) => self.word(name),
            Ast::Plus(inside) => {
                self.word("+");
                self.write(inside, 4);
            }
            Ast::Minus(inside) => {
                self.word("-");
                self.write(inside, 4);
            }
            Ast::Not(inside) => {
                self.keyword("NOT");
                self.write(inside, 4);
            }
            Ast::Or(sides) => {
                self.write(&sides[0], 0);
                self.keyword("OR");
                self.write(&sides[1], 1);
            }
            Ast::And(sides) => {
                self.write(&sides[0], 1);
                self.keyword("AND");
                self.write(&sides[1], 2);
            }
            Ast::Equal(sides, negated) => {
                self.write(&sides[0], 2);
                self.word(if *negated { "<>" } else { "=" });
                self.write(&sides[1], 3);
            }
            Ast::IsNull(inside, negated) => {
                self.write(inside, 2);
                self.keyword("IS");
                self.keyword_if(*negated, "NOT");
                self.keyword("NULL");
            }
            Ast::Order(sides, sign) => {
                self.write(&sides[0], 3);
                self.word(sign);
                self.write(&sides[1], 4);
            }
            Ast::Between(parts, negated) => {
                self.write(&parts[0], 3);
                self.keyword_if(*negated, "NOT");
                self.keyword("BETWEEN");
                self.write(&parts[1], 4);
                self.keyword("AND");
                self.write(&parts[2], 4);
            }
            Ast::In(inside, list, negated) => {
                self.write(inside, 3);
                self.keyword_if(*negated, "NOT");
                self.keyword("IN");
                for (i, text) in list.iter().enumerate() {
                    self.word(if i == 0 { "(" } else { "," });
                    self.quoted(text);
                }
                self.word(")");
            }
            Ast::Search(inside, word, text, negated) => {
                self.write(inside, 3);
                self.keyword_if(*negated, "NOT");
                self.keyword(word);
                self.quoted(text);
            }
        }
    }
}

fn text() -> impl Strategy<Value = &'static str> {
    (0..TEXTS.len()).prop_map(|i| TEXTS[i].0)
}

fn property() -> impl Strategy<Value = Ast> {
    prop::sample::select(&NAMES[..]).prop_map(Ast::Property)
}

fn number_literal() -> impl Strategy<Value = Ast> {
    (0..NUMBERS).prop_map(Ast::Literal)
}

/// What has a value and perhaps an order.
fn operand() -> impl Strategy<Value = Ast> + Clone {
    let single = prop_oneof![
        6 => property(),
        3 => number_literal(),
        1 => (0..LITERALS.len()).prop_map(Ast::Literal),
    ];
    let sign = prop_oneof![8 => Just(None), 1 => Just(Some(false)), 1 => Just(Some(true))];
    let signed = (single, sign).prop_map(|(single, sign)| match sign {
        None => single,
        Some(false) => Ast::Plus(Box::new(single)),
        Some(true) => Ast::Minus(Box::new(single)),
    });
    signed.boxed()
}

/// A condition over given operands.
fn over(operand: BoxedStrategy<Ast>) -> impl Strategy<Value = Ast> {
    let one = || operand.clone();
    let two = || (one(), one()).prop_map(|(l, r)| Box::new([l, r]));
    let sign = prop::sample::select(&[">", ">=", "<", "<="][..]);
    let word = prop::sample::select(&["CONTAINS", "STARTSWITH", "ENDSWITH"][..]);
    prop_oneof![
        3 => (two(), any::<bool>()).prop_map(|(sides, n)| Ast::Equal(sides, n)),
        3 => (two(), sign).prop_map(|(sides, sign)| Ast::Order(sides, sign)),
        2 => (one(), any::<bool>()).prop_map(|(x, n)| Ast::IsNull(Box::new(x), n)),
        2 => (one(), one(), one(), any::<bool>())
            .prop_map(|(v, l, h, n)| Ast::Between(Box::new([v, l, h]), n)),
        2 => (one(), prop::collection::vec(text(), 1..12), any::<bool>())
            .prop_map(|(x, list, n)| Ast::In(Box::new(x), list, n)),
        2 => (one(), word, text(), any::<bool>())
            .prop_map(|(x, word, text, n)| Ast::Search(Box::new(x), word, text, n)),
    ]
}

pub(super) fn expression() -> impl Strategy<Value = Ast> {
    let leaf = prop_oneof![
        9 => over(operand().boxed()),
        1 => operand(),
    ];
    leaf.prop_recursive(5, 40, 3, |inner| {
        let two = || (inner.clone(), inner.clone()).prop_map(|(l, r)| Box::new([l, r]));
        let one = || inner.clone().prop_map(Box::new);
        let mixed = prop_oneof![
            4 => operand(),
            2 => one().prop_map(Ast::Minus),
            1 => inner.clone(),
        ];
        prop_oneof![
            4 => two().prop_map(Ast::Or),
            4 => two().prop_map(Ast::And),
            2 => one().prop_map(Ast::Not),
            1 => one().prop_map(Ast::Plus),
            2 => (two(), any::<bool>()).prop_map(|(sides, n)| Ast::Equal(sides, n)),
            1 => (one(), any::<bool>()).prop_map(|(x, n)| Ast::IsNull(x, n)),
            2 => over(mixed.boxed()),
        ]
    })
}

pub(super) fn properties_of_a_message() -> impl Strategy<Value = Props> {
    // The first text is empty, which no property is.
    let value = prop::option::weighted(0.8, 1..TEXTS.len());
    prop::collection::vec(value, NAMES.len()).prop_map(|values| {
        let pairs = NAMES.iter().zip(values);
        pairs
            .filter_map(|(name, i)| Some((*name, TEXTS[i?].0)))
            .collect()
    })
}
