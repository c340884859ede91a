package elf

import (
	"errors"
	"fmt"
	"math/bits"
)

const (
	maxExprSteps = 1000 // operations of one expression
	maxExprStack = 64   // values
)

// ErrUnknownRegister: the rule needs a register that is not known.
var ErrUnknownRegister = errors.New("needs a register that is not known")

// Memory is read by Caller. ReadAt fills b from addr on, or fails.
type Memory interface {
	ReadAt(b []byte, addr uint64) (int, error)
}

// Unwinder holds what Caller works with, so that a walk allocates nothing. Not
// safe for concurrent use.
type Unwinder struct {
	Memory Memory
	word   [8]byte
	stack  [maxExprStack]uint64
}

// Caller returns the registers of the caller: RSP as it was before the call, RIP
// the return address. Registers that no rule or the ABI keeps are unknown in it.
// r must have a caller, see Last.
//
// Errors: ErrUnknownRegister, ErrFormat, that of reading memory.
// Source: DWARF 5 §6.4; System V psABI x86-64 §3.2.1: RBX, RBP, RSP and R12 to
// R15 belong to the caller.
func (u *Unwinder) Caller(r *Rules, regs *Registers) (caller Registers, err error) {
	cfa, err := u.cfa(r, regs)
	if err != nil {
		return Registers{}, err
	}
	for n := range r.regs {
		v, ok, err := u.restore(r, n, cfa, regs)
		if err != nil {
			// What cannot be read is unknown. Only the return address has to be there.
			if n == int(r.ra) || n == RegRSP {
				return Registers{}, err
			}
			continue
		}
		if ok {
			caller.Set(n, v)
		}
	}
	if r.ra != RegRIP {
		caller.Forget(RegRIP)
		if v, ok := caller.Get(int(r.ra)); ok {
			caller.Set(RegRIP, v)
		}
	}
	if _, ok := caller.Get(RegRIP); !ok {
		return Registers{}, ErrUnknownRegister
	}
	return caller, nil
}

func (u *Unwinder) cfa(r *Rules, regs *Registers) (uint64, error) {
	if r.cfa.kind == ruleIsExpr {
		return u.eval(r.exprs[r.cfa.n], regs, nil)
	}
	v, ok := regs.Get(int(r.reg))
	if !ok {
		return 0, ErrUnknownRegister
	}
	return v + uint64(r.cfa.n), nil
}

// restore returns one register of the caller; ok is false when it is lost.
func (u *Unwinder) restore(r *Rules, n int, cfa uint64, regs *Registers) (v uint64, ok bool, err error) {
	rule := r.regs[n]
	switch rule.kind {
	case ruleNone:
		switch n {
		case RegRSP:
			return cfa, true, nil
		case int(r.ra):
			v, err = u.read(cfa - 8)
			return v, err == nil, err
		case RegRBX, RegRBP, RegR12, RegR13, RegR14, RegR15:
			v, ok = regs.Get(n)
		}
	case ruleUndefined:
	case ruleSame:
		v, ok = regs.Get(n)
	case ruleAt:
		v, err = u.read(cfa + uint64(rule.n))
		ok = err == nil
	case ruleIs:
		v, ok = cfa+uint64(rule.n), true
	case ruleRegister:
		if rule.n >= 0 && rule.n < numRegisters {
			v, ok = regs.Get(int(rule.n))
		}
	case ruleAtExpr, ruleIsExpr:
		v, err = u.eval(r.exprs[rule.n], regs, &cfa)
		if err == nil && rule.kind == ruleAtExpr {
			v, err = u.read(v)
		}
		ok = err == nil
	}
	return v, ok, err
}

func (u *Unwinder) read(addr uint64) (uint64, error) {
	if _, err := u.Memory.ReadAt(u.word[:], addr); err != nil {
		return 0, err
	}
	return le.Uint64(u.word[:]), nil
}

// Operations of expressions, DWARF 5 §7.7.1.
const (
	opDeref        = 0x06
	opConst1u      = 0x08
	opConst1s      = 0x09
	opConst2u      = 0x0a
	opConst2s      = 0x0b
	opConst4u      = 0x0c
	opConst4s      = 0x0d
	opConst8u      = 0x0e
	opConst8s      = 0x0f
	opConstu       = 0x10
	opConsts       = 0x11
	opDup          = 0x12
	opDrop         = 0x13
	opOver         = 0x14
	opPick         = 0x15
	opSwap         = 0x16
	opRot          = 0x17
	opAbs          = 0x19
	opAnd          = 0x1a
	opDiv          = 0x1b
	opMinus        = 0x1c
	opMod          = 0x1d
	opMul          = 0x1e
	opNeg          = 0x1f
	opNot          = 0x20
	opOr           = 0x21
	opPlus         = 0x22
	opPlusUconst   = 0x23
	opShl          = 0x24
	opShr          = 0x25
	opShra         = 0x26
	opXor          = 0x27
	opBra          = 0x28
	opEq           = 0x29
	opGe           = 0x2a
	opGt           = 0x2b
	opLe           = 0x2c
	opLt           = 0x2d
	opNe           = 0x2e
	opSkip         = 0x2f
	opLit0         = 0x30
	opLit31        = 0x4f
	opBreg0        = 0x70
	opBreg31       = 0x8f
	opBregx        = 0x92
	opDerefSize    = 0x94
	opNop          = 0x96
	opCallFrameCFA = 0x9c
	opStackValue   = 0x9f
)

// exprStack is the values of one evaluation; it refuses what would leave it.
type exprStack struct {
	v   []uint64
	bad bool
}

func (s *exprStack) push(v uint64) {
	if len(s.v) == cap(s.v) {
		s.bad = true
		return
	}
	s.v = append(s.v, v)
}

func (s *exprStack) pop() uint64 {
	if len(s.v) == 0 {
		s.bad = true
		return 0
	}
	v := s.v[len(s.v)-1]
	s.v = s.v[:len(s.v)-1]
	return v
}

func (s *exprStack) pick(n uint64) {
	if n >= uint64(len(s.v)) {
		s.bad = true
		return
	}
	s.push(s.v[uint64(len(s.v))-1-n])
}

// eval runs an expression. The CFA is on its stack at the start when there is one.
func (u *Unwinder) eval(expr []byte, regs *Registers, cfa *uint64) (uint64, error) {
	s := exprStack{v: u.stack[:0]}
	if cfa != nil {
		s.push(*cfa)
	}
	r := cfiReader{b: expr}
	for steps := 0; r.left() > 0; steps++ {
		if steps >= maxExprSteps {
			return 0, fmt.Errorf("expression of more than %d steps: %w", maxExprSteps, ErrTooBig)
		}
		op := r.u8()
		if op == opStackValue {
			break
		}
		if err := u.operate(op, &r, &s, regs, cfa); err != nil {
			return 0, err
		}
		if r.bad || s.bad {
			return 0, fmt.Errorf("operation %#x of an expression: %w", op, ErrFormat)
		}
	}
	v := s.pop()
	if s.bad {
		return 0, fmt.Errorf("expression without a result: %w", ErrFormat)
	}
	return v, nil
}

func (u *Unwinder) operate(op uint8, r *cfiReader, s *exprStack, regs *Registers, cfa *uint64) error {
	switch {
	case op >= opLit0 && op <= opLit31:
		s.push(uint64(op - opLit0))
		return nil
	case op >= opBreg0 && op <= opBreg31:
		return breg(uint64(op-opBreg0), r, s, regs)
	case op >= opAnd && op <= opMul, op == opOr, op == opPlus, op >= opShl && op <= opXor, op >= opEq && op <= opNe:
		b, a := s.pop(), s.pop()
		v, ok := exprBinary(op, a, b)
		if !ok {
			s.bad = true
		}
		s.push(v)
		return nil
	}
	switch op {
	case opDeref, opDerefSize:
		return u.deref(op, r, s)
	case opConst1u:
		s.push(r.fixed(1))
	case opConst1s:
		s.push(uint64(int8(r.fixed(1))))
	case opConst2u:
		s.push(r.fixed(2))
	case opConst2s:
		s.push(uint64(int16(r.fixed(2))))
	case opConst4u:
		s.push(r.fixed(4))
	case opConst4s:
		s.push(uint64(int32(r.fixed(4))))
	case opConst8u, opConst8s:
		s.push(r.fixed(8))
	case opConstu:
		s.push(r.uleb())
	case opConsts:
		s.push(uint64(r.sleb()))
	case opDup:
		s.pick(0)
	case opOver:
		s.pick(1)
	case opPick:
		s.pick(r.fixed(1))
	case opDrop:
		s.pop()
	case opSwap:
		b, a := s.pop(), s.pop()
		s.push(b)
		s.push(a)
	case opRot: // the first becomes the third
		c, b, a := s.pop(), s.pop(), s.pop()
		s.push(c)
		s.push(a)
		s.push(b)
	case opAbs:
		if v := s.pop(); int64(v) < 0 {
			s.push(-v)
		} else {
			s.push(v)
		}
	case opNeg:
		s.push(-s.pop())
	case opNot:
		s.push(^s.pop())
	case opPlusUconst:
		s.push(s.pop() + r.uleb())
	case opSkip, opBra:
		delta := int(int16(r.fixed(2)))
		if op == opBra && s.pop() == 0 {
			break
		}
		if to := r.at + delta; to < 0 || to > len(r.b) {
			r.bad = true
		} else {
			r.at = to
		}
	case opBregx:
		return breg(r.uleb(), r, s, regs)
	case opNop:
	case opCallFrameCFA:
		if cfa == nil {
			s.bad = true
		} else {
			s.push(*cfa)
		}
	default:
		return fmt.Errorf("operation %#x of an expression: %w", op, ErrFormat)
	}
	return nil
}

func breg(reg uint64, r *cfiReader, s *exprStack, regs *Registers) error {
	offset := r.sleb()
	if reg >= numRegisters {
		r.bad = true
		return nil
	}
	v, ok := regs.Get(int(reg))
	if !ok {
		return ErrUnknownRegister
	}
	s.push(v + uint64(offset))
	return nil
}

func (u *Unwinder) deref(op uint8, r *cfiReader, s *exprStack) error {
	size := 8
	if op == opDerefSize {
		size = int(r.fixed(1))
		if bits.OnesCount(uint(size)) != 1 || size > 8 {
			r.bad = true
			return nil
		}
	}
	clear(u.word[:])
	if _, err := u.Memory.ReadAt(u.word[:size], s.pop()); err != nil {
		return err
	}
	s.push(le.Uint64(u.word[:]))
	return nil
}

// exprBinary is the operations with two operands, of which b was on top.
func exprBinary(op uint8, a, b uint64) (uint64, bool) {
	truth := func(t bool) (uint64, bool) {
		if t {
			return 1, true
		}
		return 0, true
	}
	switch op {
	case opAnd:
		return a & b, true
	case opOr:
		return a | b, true
	case opXor:
		return a ^ b, true
	case opPlus:
		return a + b, true
	case opMinus:
		return a - b, true
	case opMul:
		return a * b, true
	case opDiv:
		if b == 0 {
			return 0, false
		}
		return uint64(int64(a) / int64(b)), true
	case opMod:
		if b == 0 {
			return 0, false
		}
		return a % b, true
	case opShl:
		return a << min(b, 64), true
	case opShr:
		return a >> min(b, 64), true
	case opShra:
		return uint64(int64(a) >> min(b, 63)), true
	case opEq:
		return truth(a == b)
	case opNe:
		return truth(a != b)
	case opGe:
		return truth(int64(a) >= int64(b))
	case opGt:
		return truth(int64(a) > int64(b))
	case opLe:
		return truth(int64(a) <= int64(b))
	case opLt:
		return truth(int64(a) < int64(b))
	}
	return 0, false
}
