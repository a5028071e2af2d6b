// The operations of all clients, and the model of a record for the checker.

package main

import (
	"fmt"
	"math"

	"github.com/anishathalye/porcupine"
)

// Kind of an operation.
type Kind uint8

const (
	// Read in a mode that promises the newest value: linearizable, or of all copies.
	Read Kind = iota
	// PlainRead may be answered by either node from its own copy.
	PlainRead
	// Put replaces the value and keeps the count.
	Put
	// Add adds 1 to the count and keeps the value.
	Add
	// Swap is a put that expects a generation; 0: no record.
	Swap
	// Delete removes the record.
	Delete
)

func (kind Kind) String() string {
	return [...]string{"read", "plain read", "put", "add", "swap", "delete"}[kind]
}

func (kind Kind) writes() bool { return kind >= Put }

// Never is the return time of an operation that may take effect at any later time.
const Never = math.MaxInt64

// Record is the state of a key. The zero value means that no record exists.
type Record struct {
	Value      int64
	Count      int32
	Generation uint16
	Exists     bool
}

func (record Record) String() string {
	if !record.Exists {
		return "none"
	}
	return fmt.Sprintf("value %d, count %d, generation %d", record.Value, record.Count, record.Generation)
}

// Op is an operation that succeeded, or a write with unknown outcome. Refused operations are left out: they had no effect.
//
// A long run has millions of Ops, so the struct is small.
type Op struct {
	Key    int32
	Worker int16
	// Index in --nodes of the node that answered a read.
	Node int8
	Kind Kind
	// Expected generation of a swap.
	Expected uint16
	// IsUnknown: a write got no answer, or code 9. It may take effect at any time after its call.
	IsUnknown bool
	// DidMatch: a swap found the expected generation, or a deletion found a record.
	DidMatch bool
	// Value that a put or swap writes; unique in the run.
	Value int64
	// Times in ns after the start of this program.
	Call, Return int64
	// Found is the record that a read returned.
	Found Record
}

// hasEffect is true for writes that took effect, or may have.
func (op *Op) hasEffect() bool {
	return op.Kind.writes() && (op.IsUnknown || op.DidMatch || op.Kind == Put || op.Kind == Add)
}

// end is the return time that the checker gets: Never for a write with unknown outcome.
func (op *Op) end() int64 {
	if op.IsUnknown {
		return Never
	}
	return op.Return
}

func (op *Op) String() string {
	text := op.Kind.String()
	switch op.Kind {
	case Read, PlainRead:
		return fmt.Sprintf("%s: %s", text, op.Found)
	case Put:
		text += fmt.Sprintf(" %d", op.Value)
	case Swap:
		text += fmt.Sprintf(" %d if generation %d", op.Value, op.Expected)
	}
	switch {
	case op.IsUnknown:
		return text + ": unknown"
	case op.Kind == Swap || op.Kind == Delete:
		return fmt.Sprintf("%s: %t", text, op.DidMatch)
	}
	return text
}

// apply returns the record after a write, and true if the condition of the write holds.
func (op *Op) apply(record Record) (Record, bool) {
	switch op.Kind {
	case Delete:
		return Record{}, record.Exists
	case Swap:
		if record.Generation != op.Expected {
			return record, false
		}
	}
	if op.Kind == Add {
		record.Count++
	} else {
		record.Value = op.Value
	}
	record.Exists = true
	record.Generation++
	return record, true
}

// model of one key for the checker. An input is an Op, which also has the output.
var model = porcupine.Model{
	Init: func() any { return Record{} },
	Step: func(state, input, _ any) (bool, any) {
		record, op := state.(Record), input.(*Op)
		if !op.Kind.writes() {
			return record == op.Found, record
		}
		next, did := op.apply(record)
		isLegal := op.IsUnknown || op.Kind == Put || op.Kind == Add || did == op.DidMatch
		return isLegal, next
	},
	DescribeOperation: func(input, _ any) string { return input.(*Op).String() },
	DescribeState:     func(state any) string { return state.(Record).String() },
}
