// Checks of a key's history: linearizability by porcupine, and the age of plain reads by a separate rule.

package main

import (
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// Window is the time from an event until both nodes have all records again.
type Window struct{ Begin, End int64 }

func linearizable(ops []*Op, timeout time.Duration) (porcupine.CheckResult, porcupine.LinearizationInfo) {
	history := make([]porcupine.Operation, 0, len(ops))
	for _, op := range ops {
		history = append(history, porcupine.Operation{ClientId: int(op.Worker), Input: op, Call: op.Call, Return: op.end()})
	}
	return porcupine.CheckOperationsVerbose(model, history, timeout)
}

// withoutPlain returns the operations that promise the newest value.
func withoutPlain(ops []*Op) []*Op {
	var rest []*Op
	for _, op := range ops {
		if op.Kind != PlainRead {
			rest = append(rest, op)
		}
	}
	return rest
}

// withoutUndone leaves out reads that may have seen a write that a takeover undid. These are all operations without effect
// from the call of a write with unknown outcome to the end of the event. By then the write took effect, or never will.
func withoutUndone(ops []*Op, windows []Window) []*Op {
	var unknown []Window
	for _, op := range ops {
		if !op.IsUnknown {
			continue
		}
		end := op.Return
		for _, window := range windows {
			if op.Call <= window.End && op.Return >= window.Begin {
				end = max(end, window.End)
			}
		}
		unknown = append(unknown, Window{op.Call, end})
	}
	var rest []*Op
	for _, op := range ops {
		isExcused := false
		for _, window := range unknown {
			isExcused = isExcused || !op.hasEffect() && op.Call <= window.End && op.Return >= window.Begin
		}
		if !isExcused {
			rest = append(rest, op)
		}
	}
	return rest
}

// A write counts as possibly lost from this long before the start of an event to this long after it, ns. The master
// acknowledges alone for up to 2 s after the replica's last message. A takeover follows within 3 s.
const (
	lostBefore = 3e9
	lostAfter  = 2.5e9
)

// mayBeLost marks writes as unknown if they were acknowledged around the start of an event.
func mayBeLost(ops []*Op, windows []Window) []*Op {
	var weaker []*Op
	for _, op := range ops {
		for _, window := range windows {
			if op.hasEffect() && op.Return >= window.Begin-lostBefore && op.Return <= window.Begin+lostAfter {
				unknown := *op
				unknown.IsUnknown = true
				op = &unknown
			}
		}
		weaker = append(weaker, op)
	}
	return weaker
}

// source of a value: the write of this value. For a missing record: a deletion, or the start of the load.
type source struct{ call, end int64 }

// ages finds the reads of a key with a value that is older than the last write acknowledged before the read began, or that
// no client wrote.
func ages(ops []*Op, reads []*Op) []*Op {
	sources := map[int64][]source{0: {{math.MinInt64, math.MinInt64}}}
	var acknowledged []*Op
	for _, op := range ops {
		// An add keeps the value.
		if !op.hasEffect() || op.Kind == Add {
			continue
		}
		value := op.Value
		if op.Kind == Delete {
			value = 0
		}
		sources[value] = append(sources[value], source{op.Call, op.end()})
		if !op.IsUnknown {
			acknowledged = append(acknowledged, op)
		}
	}
	var wrong []*Op
	for _, read := range reads {
		isRight := false
		for _, source := range sources[read.Found.Value] {
			isOverwritten := false
			for _, op := range acknowledged {
				isOverwritten = isOverwritten || source.end < op.Call && op.Return < read.Call
			}
			isRight = isRight || source.call <= read.Return && !isOverwritten
		}
		if !isRight {
			wrong = append(wrong, read)
		}
	}
	return wrong
}
