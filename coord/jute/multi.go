package jute

import "fmt"

// The body of a multi is a sequence of steps, each behind a header of type, done and error, and ends with a header that is done.

func appendMultiHeader(b []byte, op OpCode, code Code) []byte {
	b = appendInt(b, int32(op))
	b = appendBool(b, false)
	return appendInt(b, int32(code))
}

func appendMultiEnd(b []byte) []byte {
	b = appendInt(b, -1)
	b = appendBool(b, true)
	return appendInt(b, -1)
}

func (d *decoder) multiHeader() (op OpCode, done bool, code Code) {
	return OpCode(d.int()), d.bool(), Code(d.int())
}

func (s *Step) append(b []byte) []byte {
	b = appendMultiHeader(b, s.Op, -1)
	switch s.Op {
	case OpCreate, OpCreate2:
		b = appendCreate(b, s.Path, s.Data, s.Flags)
	case OpDelete, OpCheck:
		b = appendString(b, s.Path)
		b = appendInt(b, s.Version)
	case OpSetData:
		b = appendString(b, s.Path)
		b = appendBuffer(b, s.Data)
		b = appendInt(b, s.Version)
	}
	return b
}

func (d *decoder) steps() (steps []Step) {
	for d.err == nil {
		op, done, _ := d.multiHeader()
		if done || d.err != nil {
			break
		}
		s := Step{Op: op}
		switch op {
		case OpCreate, OpCreate2:
			s.Path, s.Data, s.Flags = d.create()
		case OpDelete, OpCheck:
			s.Path = d.string()
			s.Version = d.int()
		case OpSetData:
			s.Path = d.string()
			s.Data = d.buffer()
			s.Version = d.int()
		default:
			d.fail(fmt.Sprintf("%s as a step of multi", op))
		}
		steps = append(steps, s)
	}
	return steps
}

// StepResult is the result of one step of a multi. When one step failed all have Op OpError: those before it with Code OK (undone), those after
// it with RuntimeInconsistency.
type StepResult struct {
	Op   OpCode
	Code Code
	Path string // create, create2
	Stat Stat   // create2, setData
}

func (s *StepResult) append(b []byte) []byte {
	b = appendMultiHeader(b, s.Op, s.Code)
	switch s.Op {
	case OpCreate:
		b = appendString(b, s.Path)
	case OpCreate2:
		b = appendString(b, s.Path)
		b = appendStat(b, &s.Stat)
	case OpSetData:
		b = appendStat(b, &s.Stat)
	case OpError:
		b = appendInt(b, int32(s.Code))
	}
	return b
}

func (d *decoder) results() (results []StepResult) {
	for d.err == nil {
		op, done, code := d.multiHeader()
		if done || d.err != nil {
			break
		}
		s := StepResult{Op: op, Code: code}
		switch op {
		case OpCreate:
			s.Path = d.string()
		case OpCreate2:
			s.Path = d.string()
			s.Stat = d.stat()
		case OpSetData:
			s.Stat = d.stat()
		case OpError:
			s.Code = Code(d.int())
		case OpDelete, OpCheck:
		default:
			d.fail(fmt.Sprintf("%s as the result of a step of multi", op))
		}
		results = append(results, s)
	}
	return results
}
