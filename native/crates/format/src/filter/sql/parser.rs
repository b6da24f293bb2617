//! The grammar, and what is checked of an expression before it meets a message. [SelectorParser]
//!
//! From loose to tight: OR; AND; `=` `<>` IS; the comparisons; signs and NOT; single values. All
//! levels associate to the left and may chain. The end of the text is not demanded: parsing ends at
//! the first token that does not continue the expression. Parsing does not recurse: what waits for
//! its right operand waits in a list.

use super::error::CompileError;
use super::lexer::{Lexer, Token};
use super::tree::{Literal, Order, Place, Search, Slot, Term, TextSet, Truth};
use super::value;
use std::collections::HashMap;

/// Longest expression, in bytes.
pub const MAX_LEN: usize = 16_384;
/// How deep an expression may nest. AND and OR nest once, however many conditions they join.
pub const MAX_DEPTH: usize = 128;

type Result<T> = std::result::Result<T, CompileError>;

pub(super) struct Parsed<'a> {
    pub truth: Truth,
    /// The properties it names, in the order of their slots.
    pub names: Vec<&'a str>,
    /// How often each of them is used.
    pub uses: Vec<u32>,
}

pub(super) fn parse(text: &str) -> Result<Parsed<'_>> {
    if text.len() > MAX_LEN {
        let reason = format!("it has {} bytes, more than {MAX_LEN}: split it", text.len());
        return Err(CompileError::new(text, 0, reason));
    }
    let mut parser = Parser {
        lexer: Lexer::new(text),
        token: Token::End,
        pending: Vec::new(),
        open: 0,
        names: Vec::new(),
        uses: Vec::new(),
        slots: HashMap::new(),
    };
    parser.advance()?;
    let whole = parser.expression()?;
    let truth = parser.truth(whole)?.0;
    Ok(Parsed {
        truth,
        names: parser.names,
        uses: parser.uses,
    })
}

/// A part of the expression.
struct Part {
    term: Term,
    /// How deep it nests.
    depth: usize,
    /// Where it starts.
    at: usize,
}

/// What waits for the operand that comes next. Behind a parenthesis, tighter ones stand further on.
enum Pending {
    Parenthesis {
        at: usize,
    },
    /// A minus sign, a plus sign or a NOT.
    Sign {
        sign: Sign,
        at: usize,
    },
    Order {
        left: Part,
        order: Order,
    },
    /// A BETWEEN that waits for its lower bound, and one that waits for the upper.
    Low {
        left: Part,
        negated: bool,
    },
    High {
        left: Part,
        low: Part,
        negated: bool,
    },
    Equal {
        left: Part,
        negated: bool,
    },
    Joined(Joined),
}

#[derive(Clone, Copy)]
enum Sign {
    Plus,
    Minus,
    Not,
}

/// Conditions joined by AND or by OR.
struct Joined {
    by: Token<'static>,
    sides: Vec<Truth>,
    /// How deep the deepest nests.
    depth: usize,
    at: usize,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token to be looked at next; it alone has been read ahead.
    token: Token<'a>,
    pending: Vec<Pending>,
    /// Signs, NOTs and parentheses among the pending.
    open: usize,
    names: Vec<&'a str>,
    uses: Vec<u32>,
    slots: HashMap<&'a str, Slot>,
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Result<()> {
        self.token = self.lexer.next()?;
        Ok(())
    }

    /// Steps over a token if it is the next one.
    fn take(&mut self, token: Token<'_>) -> Result<bool> {
        let there = self.token == token;
        if there {
            self.advance()?;
        }
        Ok(there)
    }

    fn expect(&mut self, token: Token<'_>, what: &str) -> Result<()> {
        match self.take(token)? {
            true => Ok(()),
            false => Err(self.unexpected(what)),
        }
    }

    /// The error that the next token is not what has to stand there.
    fn unexpected(&self, wanted: &str) -> CompileError {
        let found = match self.token {
            Token::End => "the expression ends".to_string(),
            Token::Text(_) => "a text stands there".to_string(),
            _ => {
                let written: String = self.lexer.written().chars().take(40).collect();
                format!("{written} stands there")
            }
        };
        let reason = format!("{wanted} is needed here, but {found}");
        self.lexer.fault(self.lexer.start(), reason)
    }

    /// Everything up to the first token that does not continue it.
    fn expression(&mut self) -> Result<Part> {
        loop {
            let mut part = self.operand()?;
            // It grows level by level, until an operator waits for a further operand.
            while let Some(whole) = self.levels(part)? {
                let is_open = |p: &mut Pending| matches!(p, Pending::Parenthesis { .. });
                let Some(Pending::Parenthesis { at }) = self.pending.pop_if(is_open) else {
                    return Ok(whole);
                };
                self.expect(Token::Close, "an operator or a closing parenthesis")?;
                self.open -= 1;
                part = Part { at, ..whole };
            }
        }
    }

    fn levels(&mut self, part: Part) -> Result<Option<Part>> {
        let part = self.signs(part)?;
        let Some(part) = self.comparisons(part)? else {
            return Ok(None);
        };
        let Some(part) = self.equalities(part)? else {
            return Ok(None);
        };
        let Some(part) = self.joined(part, Token::And, Truth::All)? else {
            return Ok(None);
        };
        self.joined(part, Token::Or, Truth::Any)
    }

    /// The next single value, behind all signs and parentheses that open before it.
    fn operand(&mut self) -> Result<Part> {
        loop {
            let at = self.lexer.start();
            let sign = |sign| Pending::Sign { sign, at };
            self.pending.push(match self.token {
                Token::Plus => sign(Sign::Plus),
                Token::Minus => sign(Sign::Minus),
                Token::Not => sign(Sign::Not),
                Token::Open => Pending::Parenthesis { at },
                _ => return self.single(),
            });
            self.open += 1;
            if self.open > MAX_DEPTH {
                return Err(self.too_deep(at));
            }
            self.advance()?;
        }
    }

    fn single(&mut self) -> Result<Part> {
        let at = self.lexer.start();
        let literal = match self.token {
            Token::Name(name) => {
                self.advance()?;
                let term = Term::Property(self.slot(name));
                return Ok(Part { term, depth: 0, at });
            }
            Token::Integer(written) => self.integer(written)?,
            Token::Float(written) => self.float(written)?,
            Token::Text(inside) => Literal::Text(unquoted(inside)),
            Token::True => Literal::Bool(true),
            Token::False => Literal::Bool(false),
            Token::Null => Literal::Null,
            _ => return Err(self.unexpected("a property, a literal or a parenthesis")),
        };
        self.advance()?;
        let term = Term::Literal(literal);
        Ok(Part { term, depth: 0, at })
    }

    /// Applies the signs that wait for the part.
    fn signs(&mut self, mut part: Part) -> Result<Part> {
        let is_sign = |p: &mut Pending| matches!(p, Pending::Sign { .. });
        while let Some(Pending::Sign { sign, at }) = self.pending.pop_if(is_sign) {
            self.open -= 1;
            part = match sign {
                Sign::Plus => Part { at, ..part },
                Sign::Minus => Part {
                    term: part.term.negated(),
                    // A sign around a condition is a level, one before a value is not.
                    depth: part.depth + usize::from(part.depth > 0),
                    at,
                },
                Sign::Not => {
                    let (truth, depth) = self.truth(part)?;
                    self.part(Truth::Not(Box::new(truth)), depth, at)?
                }
            };
        }
        Ok(part)
    }

    /// Comparisons around a part whose signs are applied; None if an operand is needed next.
    fn comparisons(&mut self, mut part: Part) -> Result<Option<Part>> {
        let waits = |p: &mut Pending| {
            matches!(
                p,
                Pending::Order { .. } | Pending::Low { .. } | Pending::High { .. }
            )
        };
        match self.pending.pop_if(waits) {
            Some(Pending::Order { left, order }) => part = self.order(left, order, part)?,
            Some(Pending::Low { left, negated }) => {
                self.expect(Token::And, "AND between the bounds of BETWEEN")?;
                let low = part;
                self.pending.push(Pending::High { left, low, negated });
                return Ok(None);
            }
            Some(Pending::High { left, low, negated }) => {
                part = self.between([left, low, part], negated)?;
            }
            _ => {}
        }
        loop {
            let order = match self.token {
                Token::Greater => Some(Order::Greater),
                Token::GreaterEqual => Some(Order::GreaterEqual),
                Token::Less => Some(Order::Less),
                Token::LessEqual => Some(Order::LessEqual),
                _ => None,
            };
            if let Some(order) = order {
                self.advance()?;
                self.pending.push(Pending::Order { left: part, order });
                return Ok(None);
            }
            let negated = self.take(Token::Not)?;
            part = match self.token {
                Token::Between => {
                    self.advance()?;
                    self.pending.push(Pending::Low {
                        left: part,
                        negated,
                    });
                    return Ok(None);
                }
                Token::In => self.list(part, negated)?,
                Token::Contains => self.search(part, Place::Anywhere, negated)?,
                Token::StartsWith => self.search(part, Place::Start, negated)?,
                Token::EndsWith => self.search(part, Place::End, negated)?,
                _ if negated => {
                    let wanted = "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH behind NOT";
                    return Err(self.unexpected(wanted));
                }
                _ => return Ok(Some(part)),
            };
        }
    }

    /// Equalities around a comparison; None if an operand is needed next.
    fn equalities(&mut self, mut part: Part) -> Result<Option<Part>> {
        let waits = |p: &mut Pending| matches!(p, Pending::Equal { .. });
        if let Some(Pending::Equal { left, negated }) = self.pending.pop_if(waits) {
            part = self.equal(left, part, negated)?;
        }
        loop {
            let negated = match self.token {
                Token::Equal => false,
                Token::NotEqual => true,
                Token::Is => {
                    self.advance()?;
                    let negated = self.take(Token::Not)?;
                    self.expect(Token::Null, "NULL or NOT NULL behind IS")?;
                    let term = Box::new(part.term);
                    part = self.part(Truth::IsNull { term, negated }, part.depth, part.at)?;
                    continue;
                }
                _ => return Ok(Some(part)),
            };
            self.advance()?;
            self.pending.push(Pending::Equal {
                left: part,
                negated,
            });
            return Ok(None);
        }
    }

    /// ANDs or ORs around what binds tighter; None if an operand is needed next.
    fn joined(
        &mut self,
        part: Part,
        by: Token<'static>,
        join: fn(Box<[Truth]>) -> Truth,
    ) -> Result<Option<Part>> {
        let waits = |p: &mut Pending| matches!(p, Pending::Joined(j) if j.by == by);
        let mut joined = match self.pending.pop_if(waits) {
            Some(Pending::Joined(joined)) => joined,
            _ if self.token != by => return Ok(Some(part)),
            _ => Joined {
                by,
                sides: Vec::new(),
                depth: 0,
                at: part.at,
            },
        };
        let (truth, depth) = self.truth(part)?;
        joined.sides.push(truth);
        joined.depth = joined.depth.max(depth);
        if self.take(by)? {
            self.pending.push(Pending::Joined(joined));
            return Ok(None);
        }
        let truth = join(joined.sides.into());
        self.part(truth, joined.depth, joined.at).map(Some)
    }

    /// [ComparisonExpression.createEqual]
    fn equal(&self, left: Part, right: Part, negated: bool) -> Result<Part> {
        self.check_equal(&left, &right)?;
        let depth = left.depth.max(right.depth);
        let sides = Box::new([left.term, right.term]);
        self.part(Truth::Equal { sides, negated }, depth, left.at)
    }

    fn order(&self, left: Part, order: Order, right: Part) -> Result<Part> {
        self.check_order(&left)?;
        self.check_order(&right)?;
        let depth = left.depth.max(right.depth);
        let sides = Box::new([left.term, right.term]);
        self.part(Truth::Order { order, sides }, depth, left.at)
    }

    /// [ComparisonExpression.createBetween]
    fn between(&self, parts: [Part; 3], negated: bool) -> Result<Part> {
        for part in &parts {
            self.check_order(part)?;
        }
        let [left, low, high] = parts;
        if let (false, Term::Literal(l), Term::Literal(h)) = (negated, &low.term, &high.term)
            && let Ok(Some(ordering)) = value::order(h.value(), l.value())
            && ordering.is_lt()
        {
            let reason = "the lower bound is above the upper one: write the lower one first";
            return Err(self.lexer.fault(low.at, reason));
        }
        let depth = left.depth.max(low.depth).max(high.depth);
        let terms = Box::new([left.term, low.term, high.term]);
        self.part(Truth::Between { terms, negated }, depth, left.at)
    }

    /// What follows the next token, IN.
    fn list(&mut self, left: Part, negated: bool) -> Result<Part> {
        self.advance()?;
        let wanted = "a list of texts in single quotes like ('x', 'y')";
        self.expect(Token::Open, wanted)?;
        let mut texts = vec![self.text(wanted)?];
        while self.take(Token::Comma)? {
            texts.push(self.text(wanted)?);
        }
        self.expect(Token::Close, "a comma or a closing parenthesis")?;
        let Term::Property(property) = left.term else {
            let reason = "only a property can be looked up with IN: write its name here";
            return Err(self.lexer.fault(left.at, reason));
        };
        let list = TextSet::new(texts);
        let truth = Truth::In {
            property,
            list,
            negated,
        };
        self.part(truth, left.depth, left.at)
    }

    /// What follows the next token, CONTAINS or one of its kin.
    fn search(&mut self, left: Part, place: Place, negated: bool) -> Result<Part> {
        self.advance()?;
        let search = Search {
            term: left.term,
            place,
            text: self.text("a text in single quotes")?,
            negated,
        };
        self.part(Truth::Search(Box::new(search)), left.depth, left.at)
    }

    /// The next token as a text.
    fn text(&mut self, wanted: &str) -> Result<Box<str>> {
        let Token::Text(inside) = self.token else {
            return Err(self.unexpected(wanted));
        };
        self.advance()?;
        Ok(unquoted(inside))
    }

    fn slot(&mut self, name: &'a str) -> Slot {
        let (names, uses) = (&mut self.names, &mut self.uses);
        let slot = *self.slots.entry(name).or_insert_with(|| {
            names.push(name);
            uses.push(0);
            // An expression is too short for more names than there are slots.
            (names.len() - 1) as Slot
        });
        uses[usize::from(slot)] += 1;
        slot
    }

    /// [ConstantExpression.createFromDecimal]
    fn integer(&self, written: &str) -> Result<Literal> {
        let Ok(n) = written.trim_end_matches(['l', 'L']).parse::<i64>() else {
            let reason = format!(
                "the integer is too large: at most {} can be written",
                i64::MAX
            );
            return Err(self.lexer.fault(self.lexer.start(), reason));
        };
        Ok(i32::try_from(n).map_or(Literal::Long(n), Literal::Int))
    }

    /// [ConstantExpression.createFloat]
    fn float(&self, written: &str) -> Result<Literal> {
        match written.parse::<f64>() {
            Ok(n) if n > 0.0 && n.is_finite() => Ok(Literal::Double(n)),
            _ => {
                let reason = "a number with a point or an exponent has to be above 0 and at most \
                              1.7976931348623157E308: write 0 for 0.0";
                Err(self.lexer.fault(self.lexer.start(), reason))
            }
        }
    }

    /// A condition whose parts nest as deep as given.
    fn part(&self, truth: Truth, depth: usize, at: usize) -> Result<Part> {
        if depth >= MAX_DEPTH {
            return Err(self.too_deep(at));
        }
        Ok(Part {
            term: Term::Truth(truth),
            depth: depth + 1,
            at,
        })
    }

    fn too_deep(&self, at: usize) -> CompileError {
        let reason = format!("it nests more than {MAX_DEPTH} levels deep: simplify it");
        self.lexer.fault(at, reason)
    }

    /// A part as a condition, and its depth. [SelectorParser.asBooleanExpression]
    fn truth(&self, part: Part) -> Result<(Truth, usize)> {
        let Some(truth) = part.term.into_truth() else {
            let reason =
                "a condition is needed here, not a number or a text: compare it with something";
            return Err(self.lexer.fault(part.at, reason));
        };
        Ok((truth, part.depth))
    }

    /// [ComparisonExpression.checkEqualOperand, checkEqualOperandCompatability]
    fn check_equal(&self, left: &Part, right: &Part) -> Result<()> {
        for side in [left, right] {
            if let Term::Literal(Literal::Null) = side.term {
                let reason = "NULL cannot be compared: write IS NULL or IS NOT NULL";
                return Err(self.lexer.fault(side.at, reason));
            }
        }
        match (&left.term, &right.term) {
            (_, Term::Literal(Literal::Bool(_))) => Ok(()),
            (Term::Literal(Literal::Bool(_)), Term::Literal(_)) => {
                let reason = "TRUE and FALSE cannot be compared with a number or a text";
                Err(self.lexer.fault(left.at, reason))
            }
            _ => Ok(()),
        }
    }

    /// Only numbers have an order, and properties, which may hold some.
    /// [ComparisonExpression.checkLessThanOperand]
    fn check_order(&self, part: &Part) -> Result<()> {
        let reason = match &part.term {
            Term::Literal(Literal::Text(_)) => "a text has no order: write a number without quotes",
            Term::Literal(Literal::Null) => "NULL has no order: write IS NULL or IS NOT NULL",
            Term::Literal(Literal::Bool(_)) | Term::Truth(_) => {
                "a condition has no order: put NOT and comparisons in parentheses of their own"
            }
            _ => return Ok(()),
        };
        Err(self.lexer.fault(part.at, reason))
    }
}

fn unquoted(inside: &str) -> Box<str> {
    inside.replace("''", "'").into()
}

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
