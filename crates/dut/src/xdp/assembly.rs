//! The kernel's instructions (BPF, RFC 9669), as far as the programs here need them, with labels.

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reg(pub(super) u8);

/// What a call returns, and a program.
pub(super) const R0: Reg = Reg(0);
/// Arguments of calls; gone after one.
pub(super) const R1: Reg = Reg(1);
pub(super) const R2: Reg = Reg(2);
pub(super) const R3: Reg = Reg(3);
pub(super) const R4: Reg = Reg(4);
/// Kept over calls.
pub(super) const R6: Reg = Reg(6);
pub(super) const R7: Reg = Reg(7);
pub(super) const R8: Reg = Reg(8);
pub(super) const R9: Reg = Reg(9);
/// The end of the stack.
pub(super) const FRAME: Reg = Reg(10);

/// Bytes of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
}

/// When a jump is taken; unsigned, of all 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum If {
    Equal = 0x10,
    Greater = 0x20,
    NotEqual = 0x50,
    Less = 0xa0,
}

/// A place to jump to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// A program being written.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    code: Vec<[u8; 8]>,
    /// Where each label is.
    labels: Vec<Option<usize>>,
    /// Jumps, and where they lead.
    jumps: Vec<(usize, Label)>,
}

impl Assembly {
    fn emit(&mut self, operation: u8, (to, from): (Reg, Reg), offset: i16, immediate: i32) {
        let [low, high] = offset.to_le_bytes();
        let [a, b, c, d] = immediate.to_le_bytes();
        self.code.push([operation, to.0 | from.0 << 4, low, high, a, b, c, d]);
    }

    /// `to = value`.
    pub(super) fn set(&mut self, to: Reg, value: i32) {
        self.emit(0xb7, (to, R0), 0, value);
    }

    /// `to = from`.
    pub(super) fn copy(&mut self, to: Reg, from: Reg) {
        self.emit(0xbf, (to, from), 0, 0);
    }

    /// `to += value`.
    pub(super) fn add(&mut self, to: Reg, value: i32) {
        self.emit(0x07, (to, R0), 0, value);
    }

    /// `to += from`.
    pub(super) fn add_to(&mut self, to: Reg, from: Reg) {
        self.emit(0x0f, (to, from), 0, 0);
    }

    /// `to &= value`.
    pub(super) fn and(&mut self, to: Reg, value: i32) {
        self.emit(0x57, (to, R0), 0, value);
    }

    /// `to <<= bits`.
    pub(super) fn left(&mut self, to: Reg, bits: i32) {
        self.emit(0x67, (to, R0), 0, bits);
    }

    /// `to >>= bits`.
    pub(super) fn right(&mut self, to: Reg, bits: i32) {
        self.emit(0x77, (to, R0), 0, bits);
    }

    /// `to`, whose lowest bits are in the network's order, in the machine's.
    pub(super) fn swap(&mut self, to: Reg, bits: i32) {
        self.emit(0xdc, (to, R0), 0, bits);
    }

    /// `to = *(from + offset)`.
    pub(super) fn load(&mut self, size: Size, to: Reg, from: Reg, offset: i16) {
        self.emit(0x61 | size as u8, (to, from), offset, 0);
    }

    /// `*(to + offset) = from`.
    pub(super) fn store(&mut self, size: Size, to: Reg, offset: i16, from: Reg) {
        self.emit(0x63 | size as u8, (to, from), offset, 0);
    }

    /// `to =` the table of this number.
    pub(super) fn table(&mut self, to: Reg, number: i32) {
        self.emit(0x18, (to, R1), 0, number);
        self.emit(0, (R0, R0), 0, 0);
    }

    /// Calls a function of the kernel.
    pub(super) fn call(&mut self, function: i32) {
        self.emit(0x85, (R0, R0), 0, function);
    }

    /// Returns what is in [`R0`].
    pub(super) fn exit(&mut self) {
        self.emit(0x95, (R0, R0), 0, 0);
    }

    /// A label, to be put somewhere.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts a label here.
    pub(super) fn put(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Jumps where a register compares so with a value.
    pub(super) fn jump_if(&mut self, left: Reg, how: If, right: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x05 | how as u8, (left, R0), 0, right);
    }

    /// Jumps where a register compares so with another.
    pub(super) fn jump_if_reg(&mut self, left: Reg, how: If, right: Reg, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x0d | how as u8, (left, right), 0, 0);
    }

    /// The instructions; the mistake, where a jump leads nowhere or too far.
    pub(super) fn done(mut self) -> Result<Vec<[u8; 8]>, String> {
        for (at, label) in self.jumps {
            let place = self.labels[label.0].ok_or("a jump leads nowhere")?;
            let offset = i16::try_from(place as i64 - at as i64 - 1);
            let offset = offset.map_err(|_| "a jump leads farther than a jump can")?;
            [self.code[at][2], self.code[at][3]] = offset.to_le_bytes();
        }
        Ok(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_standard_and_jumps_lead_to_their_labels() {
        let mut code = Assembly::default();
        let end = code.label();
        code.load(Size::Half, R1, R7, 12);
        code.jump_if(R1, If::NotEqual, 8, end);
        code.set(R0, 2);
        code.put(end);
        code.exit();
        assert_eq!(
            code.done().unwrap(),
            [
                [0x69, 0x71, 12, 0, 0, 0, 0, 0],
                [0x55, 0x01, 1, 0, 8, 0, 0, 0],
                [0xb7, 0x00, 0, 0, 2, 0, 0, 0],
                [0x95, 0x00, 0, 0, 0, 0, 0, 0],
            ]
        );
    }

    #[test]
    fn a_jump_that_leads_nowhere_or_too_far_is_a_mistake() {
        let mut nowhere = Assembly::default();
        let label = nowhere.label();
        nowhere.jump_if(R1, If::Equal, 0, label);
        assert!(nowhere.done().unwrap_err().contains("nowhere"));
        let mut far = Assembly::default();
        let label = far.label();
        far.jump_if(R1, If::Equal, 0, label);
        (0..40_000).for_each(|_| far.exit());
        far.put(label);
        assert!(far.done().unwrap_err().contains("farther"));
    }
}
