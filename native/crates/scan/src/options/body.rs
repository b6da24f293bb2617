//! Types in the words of Spark's DDL, as the JSON in which Spark itself keeps them: what `bodySchema`
//! says is in bodies of JSON.

use crate::body_form;
use crate::repr;
use pyrmq_arrow::{MAX_DEPTH, MAX_FIELDS};
use serde_json::{Value, json};

const MAX_CHARACTERS: usize = 1 << 20;
const FORM: &str = "columns as in CREATE TABLE, such as 'id BIGINT, name STRING'";
const TYPES: &str = "BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, DATE, TIMESTAMP, \
     ARRAY<..>, MAP<STRING,..> and STRUCT<..>";

/// The struct type of a list of columns. An error continues "option NAME".
pub fn schema(text: &str) -> Result<Value, String> {
    if text.len() > MAX_CHARACTERS {
        return Err(format!("is longer than {MAX_CHARACTERS} characters"));
    }
    let mut parser = Parser {
        tokens: tokens(text)?,
        at: 0,
        fields: 0,
    };
    let found = parser.fields(0)?;
    if let Some(token) = parser.next() {
        return Err(parser.unexpected(&token));
    }
    match body_form::of(Some(&json!({"json": found}))) {
        Ok(_) => Ok(found),
        Err(error) => Err(format!("is not possible: {error}")),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    /// A name between backquotes, or a comment between quotes.
    Quoted(String, char),
    Mark(char),
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '`' | '\'' | '"' => quoted(rest, first)?,
            '<' | '>' | '(' | ')' | ',' | ':' => (Token::Mark(first), 1),
            _ => {
                let end = rest
                    .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .unwrap_or(rest.len());
                if end == 0 {
                    let shown = repr::text(&first.to_string());
                    return Err(format!("has {shown} in it; expected {FORM}"));
                }
                (Token::Word(rest[..end].to_owned()), end)
            }
        };
        out.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(out)
}

/// A text in quotes, in which two of them stand for one, and its length in bytes.
fn quoted(text: &str, quote: char) -> Result<(Token, usize), String> {
    let mut inner = String::new();
    let mut at = 1;
    while let Some(found) = text[at..].find(quote) {
        inner.push_str(&text[at..at + found]);
        at += found + 1;
        if !text[at..].starts_with(quote) {
            return Ok((Token::Quoted(inner, quote), at));
        }
        inner.push(quote);
        at += 1;
    }
    Err(format!("has {quote} without a second one"))
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    fields: usize,
}

impl Parser {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    /// Whether this mark comes next; then it is taken.
    fn takes(&mut self, mark: char) -> bool {
        let is_next = self.tokens.get(self.at) == Some(&Token::Mark(mark));
        self.at += usize::from(is_next);
        is_next
    }

    fn takes_word(&mut self, wanted: &str) -> bool {
        let is_next = matches!(self.tokens.get(self.at),
            Some(Token::Word(word)) if word.eq_ignore_ascii_case(wanted));
        self.at += usize::from(is_next);
        is_next
    }

    fn needs(&mut self, mark: char) -> Result<(), String> {
        if self.takes(mark) {
            return Ok(());
        }
        match self.tokens.get(self.at) {
            Some(token) => Err(self.unexpected(&token.clone())),
            None => Err(format!("ends where {mark} is expected")),
        }
    }

    fn unexpected(&self, token: &Token) -> String {
        let shown = match token {
            Token::Word(word) | Token::Quoted(word, _) => repr::text(word),
            Token::Mark(mark) => repr::text(&mark.to_string()),
        };
        format!("has {shown} where it is not expected; expected {FORM}")
    }

    /// Columns with commas between them.
    fn fields(&mut self, depth: usize) -> Result<Value, String> {
        let mut out: Vec<Value> = Vec::new();
        loop {
            let name = match self.next() {
                Some(Token::Word(name) | Token::Quoted(name, '`')) => name,
                Some(token) => return Err(self.unexpected(&token)),
                None if out.is_empty() => return Err(format!("is empty; expected {FORM}")),
                None => return Err("ends behind a comma".to_owned()),
            };
            let same = |field: &Value| {
                let known = field["name"].as_str().unwrap_or("");
                known.to_lowercase() == name.to_lowercase()
            };
            if out.iter().any(same) {
                return Err(format!("names the column {name} twice"));
            }
            self.fields += 1;
            if self.fields > MAX_FIELDS {
                return Err(format!("has more than {MAX_FIELDS} columns"));
            }
            self.takes(':');
            let kind = self.kind(&name, depth)?;
            if self.takes_word("not") {
                return Err(format!(
                    "says NOT NULL of {name}, but any body may lack it: leave that out"
                ));
            }
            if self.takes_word("comment")
                && !matches!(self.next(), Some(Token::Quoted(_, '\'' | '"')))
            {
                return Err(format!("has no text in quotes behind COMMENT of {name}"));
            }
            out.push(json!({"name": name, "type": kind, "nullable": true, "metadata": {}}));
            if !self.takes(',') {
                return Ok(json!({"type": "struct", "fields": out}));
            }
        }
    }

    fn kind(&mut self, name: &str, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err("is nested too deeply".to_owned());
        }
        let word = match self.next() {
            Some(Token::Word(word)) => word.to_lowercase(),
            Some(token) => return Err(self.unexpected(&token)),
            None => return Err(format!("has no type behind {name}")),
        };
        Ok(match word.as_str() {
            "boolean" => json!("boolean"),
            "int" | "integer" => json!("integer"),
            "bigint" | "long" => json!("long"),
            "float" | "real" => json!("float"),
            "double" => json!("double"),
            "string" => json!("string"),
            "date" => json!("date"),
            "timestamp" | "timestamp_ltz" => json!("timestamp"),
            "decimal" | "dec" | "numeric" => self.decimal(name)?,
            "array" => {
                self.needs('<')?;
                let element = self.kind(name, depth + 1)?;
                self.needs('>')?;
                json!({"type": "array", "elementType": element, "containsNull": true})
            }
            "map" => {
                self.needs('<')?;
                let key = self.kind(name, depth + 1)?;
                if key != "string" {
                    return Err(format!(
                        "has a map {name} whose keys are no STRING, as those of JSON objects are"
                    ));
                }
                self.needs(',')?;
                let value = self.kind(name, depth + 1)?;
                self.needs('>')?;
                json!({"type": "map", "keyType": key, "valueType": value, "valueContainsNull": true})
            }
            "struct" => {
                self.needs('<')?;
                let fields = self.fields(depth + 1)?;
                self.needs('>')?;
                fields
            }
            _ => {
                return Err(format!(
                    "has the type {} for {name}; the types are {TYPES}",
                    repr::text(&word)
                ));
            }
        })
    }

    fn decimal(&mut self, name: &str) -> Result<Value, String> {
        if !self.takes('(') {
            return Ok(json!("decimal(10,0)"));
        }
        let precision = self.number(name, 1, 38)?;
        let scale = match self.takes(',') {
            true => self.number(name, 0, precision)?,
            false => 0,
        };
        self.needs(')')?;
        Ok(json!(format!("decimal({precision},{scale})")))
    }

    fn number(&mut self, name: &str, low: u8, high: u8) -> Result<u8, String> {
        let number = match self.next() {
            Some(Token::Word(word)) => word.parse().ok(),
            _ => None,
        };
        number
            .filter(|number| (low..=high).contains(number))
            .ok_or_else(|| format!("has a DECIMAL for {name} whose digits are not {low} to {high}"))
    }
}
