// Tests with made-up histories: each fault is found, and no correct history is reported as a fault.

package main

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

func record(value int64, count int32, generation uint16) Record {
	return Record{value, count, generation, true}
}

func done(kind Kind, call, end, value int64) *Op {
	return &Op{Kind: kind, Call: call, Return: end, Value: value, DidMatch: true}
}

func unknown(kind Kind, call, end, value int64) *Op {
	return &Op{Kind: kind, Call: call, Return: end, Value: value, IsUnknown: true}
}

func read(call, end int64, found Record) *Op {
	return &Op{Kind: Read, Call: call, Return: end, Found: found}
}

func swap(call, end, value int64, expected uint16, did bool) *Op {
	return &Op{Kind: Swap, Call: call, Return: end, Value: value, Expected: expected, DidMatch: did}
}

func TestHistories(t *testing.T) {
	missed := &Op{Kind: Delete, Call: 1, Return: 2}
	for name, of := range map[string]struct {
		want porcupine.CheckResult
		ops  []*Op
	}{
		"one after another": {porcupine.Ok, []*Op{
			missed, swap(3, 4, 1, 0, true), done(Add, 5, 6, 0), swap(7, 8, 2, 1, false), read(9, 10, record(1, 1, 2)),
			done(Delete, 11, 12, 0), read(13, 14, Record{}), done(Put, 15, 16, 3), read(17, 18, record(3, 0, 1)),
		}},
		"of two at once either is first": {porcupine.Ok, []*Op{
			done(Put, 1, 5, 1), done(Put, 2, 6, 2), read(7, 8, record(1, 0, 2)),
		}},
		"an acknowledged write is lost":     {porcupine.Illegal, []*Op{done(Put, 1, 2, 1), done(Put, 3, 4, 2), read(5, 6, record(1, 0, 1))}},
		"an acknowledged deletion is lost":  {porcupine.Illegal, []*Op{done(Put, 1, 2, 1), done(Delete, 3, 4, 0), read(5, 6, record(1, 0, 1))}},
		"a read goes back":                  {porcupine.Illegal, []*Op{done(Put, 1, 2, 1), done(Put, 3, 9, 2), read(4, 5, record(2, 0, 2)), read(6, 7, record(1, 0, 1))}},
		"nobody wrote that":                 {porcupine.Illegal, []*Op{done(Put, 1, 2, 1), read(3, 4, record(7, 0, 1))}},
		"an add took effect twice":          {porcupine.Illegal, []*Op{done(Add, 1, 2, 0), read(3, 4, record(0, 2, 2))}},
		"two swaps of the same generation":  {porcupine.Illegal, []*Op{swap(1, 4, 1, 0, true), swap(2, 5, 2, 0, true)}},
		"a swap was refused for no reason":  {porcupine.Illegal, []*Op{done(Put, 1, 2, 1), swap(3, 4, 2, 1, false)}},
		"a deletion found nothing":          {porcupine.Illegal, []*Op{done(Put, 1, 2, 1), {Kind: Delete, Call: 3, Return: 4}}},
		"an unknown write takes effect":     {porcupine.Ok, []*Op{unknown(Put, 1, 2, 1), read(3, 4, Record{}), read(5, 6, record(1, 0, 1))}},
		"an unknown write never does":       {porcupine.Ok, []*Op{unknown(Put, 1, 2, 1), read(3, 4, Record{}), read(5, 6, Record{})}},
		"an unknown swap that cannot":       {porcupine.Ok, []*Op{done(Put, 1, 2, 1), {Kind: Swap, Call: 3, Return: 4, Value: 2, Expected: 9, IsUnknown: true}, read(5, 6, record(1, 0, 1))}},
		"an unknown write is undone":        {porcupine.Illegal, []*Op{unknown(Put, 1, 2, 1), read(3, 4, record(1, 0, 1)), read(5, 6, Record{})}},
		"an unknown write before its begin": {porcupine.Illegal, []*Op{read(1, 2, record(1, 0, 1)), unknown(Put, 3, 4, 1)}},
	} {
		if got, _ := linearizable(of.ops, time.Minute); got != of.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestUndoneWritesAreExcusedDuringTheirEventOnly(t *testing.T) {
	ops := []*Op{done(Put, 1, 2, 1), unknown(Put, 3, 10, 2), read(20, 21, record(2, 0, 2)), read(30, 31, record(1, 0, 1))}
	check := func(windows ...Window) porcupine.CheckResult {
		result, _ := linearizable(withoutUndone(ops, windows), time.Minute)
		return result
	}
	if during, after := check(Window{5, 25}), check(Window{5, 15}, Window{27, 29}); during != porcupine.Ok || after != porcupine.Illegal {
		t.Errorf("%s %s", during, after)
	}
	// A takeover must not undo an acknowledged write.
	ops = append(ops, done(Put, 22, 23, 3))
	if lost := check(Window{5, 25}); lost != porcupine.Illegal {
		t.Error(lost)
	}
}

func TestWhatMayBeLost(t *testing.T) {
	lost := []*Op{done(Put, 10e9, 11e9, 1), done(Put, 12e9, 13e9, 2), read(20e9, 21e9, record(1, 0, 1))}
	for _, of := range []struct {
		begin int64
		want  porcupine.CheckResult
	}{{14e9, porcupine.Ok}, {11e9, porcupine.Ok}, {17e9, porcupine.Illegal}, {10e9, porcupine.Illegal}} {
		windows := []Window{{of.begin, of.begin + 1e9}}
		if got, _ := linearizable(withoutUndone(mayBeLost(lost, windows), windows), time.Minute); got != of.want {
			t.Errorf("%+v: %s", of, got)
		}
	}
}

func TestAges(t *testing.T) {
	ops := []*Op{
		done(Put, 10, 20, 1), done(Put, 30, 40, 2), done(Delete, 50, 60, 0), unknown(Put, 70, 75, 3), done(Put, 80, 90, 4),
		swap(92, 94, 5, 77, false),
	}
	for _, of := range []struct {
		call, end, value int64
		isWrong          bool
	}{
		{1, 5, 0, false}, {1, 5, 1, true}, {11, 12, 1, false}, {11, 12, 0, false}, {25, 26, 0, true}, {25, 26, 1, false},
		{35, 36, 1, false}, {35, 36, 2, false}, {41, 42, 1, true}, {55, 56, 0, false}, {65, 66, 2, true}, {65, 66, 0, false},
		{71, 72, 3, false}, {95, 96, 0, true}, {95, 96, 4, false}, {95, 96, 3, false}, {95, 96, 5, true}, {95, 96, 9, true},
	} {
		plain := &Op{Kind: PlainRead, Call: of.call, Return: of.end, Found: Record{of.value, 0, 1, of.value != 0}}
		if got := len(ages(ops, []*Op{plain})) == 1; got != of.isWrong {
			t.Errorf("%+v: %t", of, got)
		}
	}
}
