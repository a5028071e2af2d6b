// The final reads, and the summary of all results.

package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// Time limit for the final read of a key.
	patience = 30 * time.Second
	// Time limit for the check of one key.
	checkTimeout = 30 * time.Second
	// Maximum number of histories written to disk: of wrong keys, and of other notable keys.
	writtenMax = 5
)

// EventSummary has the effects of an event. WholeMs: time until both nodes had all records again.
type EventSummary struct {
	Name         string   `json:"name"`
	WholeMs      int64    `json:"whole_ms"`
	NoWritesMs   [2]int64 `json:"without_writes_ms"`
	Acknowledged int      `json:"writes_acknowledged"`
	Refused      int      `json:"writes_refused"`
	Unknown      int      `json:"writes_unknown"`
}

// Summary of a run.
type Summary struct {
	HighestRate int `json:"highest_rate"`
	Rate        int `json:"rate"`
	Keys        int `json:"keys"`
	Operations  int `json:"operations"`
	// Answered operations succeeded. Refused operations had no effect. Unknown: writes with unknown outcome.
	Answered      int            `json:"answered"`
	Refused       int            `json:"refused"`
	Unknown       int            `json:"unknown"`
	FailedByCode  map[int]int    `json:"failed_by_code"`
	Events        []EventSummary `json:"events"`
	Linearizable  bool           `json:"linearizable"`
	IllegalKeys   []int32        `json:"illegal_keys"`
	UndecidedKeys []int32        `json:"undecided_keys"`
	// Keys that are linearizable only without reads of writes that a takeover undid.
	UndoneKeys []int32 `json:"undone_keys"`
	PlainReads int     `json:"plain_reads"`
	// Reads of the second node that may be old, because it had no contact with the first.
	ExcusedReads int `json:"excused_reads"`
	ExcusedOld   int `json:"excused_reads_that_were_old"`
	OldReads     int `json:"old_reads"`
	// Keys for which a node finally lacks acknowledged writes.
	Lost []int32 `json:"lost"`
	// With --may-lose: keys that are correct only if writes acknowledged around an event may be lost.
	LostAsDocumented []int32 `json:"lost_as_documented"`
	// Keys with different final records on the two nodes.
	Different []int32 `json:"different"`
}

// readAll reads each used key three times: the newest value, and the copy of each node.
func (load *Load) readAll() ([]*Op, error) {
	used := (int(load.round.Load()) + 1) * load.keys
	results := make([][]*Op, len(load.workers))
	errors := make([]error, len(load.workers))
	var group sync.WaitGroup
	for number, worker := range load.workers {
		group.Add(1)
		go func() {
			defer group.Done()
			for key := number; key < used && errors[number] == nil; key += len(load.workers) {
				var ops []*Op
				ops, errors[number] = worker.readLast(key)
				results[number] = append(results[number], ops...)
			}
		}()
	}
	group.Wait()
	for _, err := range errors {
		if err != nil {
			return nil, err
		}
	}
	return slices.Concat(results...), nil
}

func (worker *worker) readLast(key int) ([]*Op, error) {
	var ops []*Op
	// The newest value, then the value of each node.
	isRead := [3]bool{}
	for begin := time.Now(); isRead != [3]bool{true, true, true}; {
		op := &Op{Key: int32(key), Worker: worker.number, Kind: PlainRead, Node: -1}
		if !isRead[2] {
			op.Kind = Read
		}
		if time.Since(begin) > patience {
			return nil, fmt.Errorf("cannot read key %d from both nodes within %s", key, patience)
		}
		op.Call = worker.load.now()
		failed := worker.ask(op)
		op.Return = worker.load.now()
		at := int(op.Node)
		if op.Kind == Read {
			at = 2
		}
		if failed != nil || at < 0 {
			time.Sleep(10 * time.Millisecond)
		} else if !isRead[at] {
			isRead[at] = true
			ops = append(ops, op)
		}
	}
	return ops, nil
}

func (load *Load) summarize(events []*Event, homes []int, final []*Op, out string) *Summary {
	summary := &Summary{Keys: (int(load.round.Load()) + 1) * load.keys, FailedByCode: map[int]int{}, Linearizable: true}
	var windows, silent []Window
	for _, event := range events {
		windows = append(windows, event.Window)
		if event.isSilent {
			silent = append(silent, event.Window)
		}
	}
	byKey, finalByKey := map[int32][]*Op{}, map[int32][]*Op{}
	for _, op := range final {
		finalByKey[op.Key] = append(finalByKey[op.Key], op)
	}
	var failures []Failure
	var acknowledged []*Op
	for _, worker := range load.workers {
		failures = append(failures, worker.failures...)
		for _, op := range worker.ops {
			byKey[op.Key] = append(byKey[op.Key], op)
			if op.hasEffect() && !op.IsUnknown {
				acknowledged = append(acknowledged, op)
			}
			if !op.IsUnknown {
				summary.Answered++
			}
		}
	}
	for _, failed := range failures {
		summary.FailedByCode[failed.Code]++
		if failed.IsUnknown {
			summary.Unknown++
		} else {
			summary.Refused++
		}
	}
	summary.Operations = summary.Answered + summary.Unknown + summary.Refused
	for _, event := range events {
		summary.Events = append(summary.Events, summarizeEvent(event, acknowledged, failures, homes))
	}
	load.checkAll(summary, byKey, finalByKey, windows, silent, out)
	return summary
}

func summarizeEvent(event *Event, acknowledged []*Op, failures []Failure, homes []int) EventSummary {
	summary := EventSummary{Name: event.name, WholeMs: (event.End - event.Begin) / 1e6}
	isIn := func(at int64) bool { return event.Begin <= at && at <= event.End }
	for _, failed := range failures {
		if failed.IsWrite && isIn(failed.Return) {
			if failed.IsUnknown {
				summary.Unknown++
			} else {
				summary.Refused++
			}
		}
	}
	// For each node: the longest time without an acknowledged write to the keys of which it is the master.
	var returns [2][]int64
	for _, op := range acknowledged {
		if isIn(op.Return) {
			summary.Acknowledged++
			returns[homes[op.Key]] = append(returns[homes[op.Key]], op.Return)
		}
	}
	for home, times := range returns {
		times = append(times, event.Begin, event.End)
		slices.Sort(times)
		for at := 1; at < len(times); at++ {
			summary.NoWritesMs[home] = max(summary.NoWritesMs[home], (times[at]-times[at-1])/1e6)
		}
	}
	return summary
}

// verdict on one key.
type verdict struct {
	result   porcupine.CheckResult
	info     porcupine.LinearizationInfo
	isUndone bool
	// Reads of values that are older than allowed: `old` during the load, `lost` at the end.
	old, lost []*Op
}

func (of *verdict) isRight() bool { return of.result == porcupine.Ok && len(of.old)+len(of.lost) == 0 }

func checkKey(ops, plain, last []*Op, windows []Window) *verdict {
	of := &verdict{old: ages(ops, plain), lost: ages(ops, last)}
	history := append(withoutPlain(ops), withoutPlain(last)...)
	of.result, of.info = linearizable(history, checkTimeout)
	if of.result == porcupine.Illegal {
		of.result, of.info = linearizable(withoutUndone(history, windows), checkTimeout)
		of.isUndone = of.result == porcupine.Ok
	}
	return of
}

func (load *Load) checkAll(summary *Summary, byKey, finalByKey map[int32][]*Op, windows, silent []Window, out string) {
	written := map[bool]int{}
	for _, key := range slices.Sorted(maps.Keys(finalByKey)) {
		ops, last := byKey[key], finalByKey[key]
		var plain, excused []*Op
		for _, op := range ops {
			isExcused := slices.ContainsFunc(silent, func(window Window) bool {
				return op.Node != 0 && op.Call <= window.End && op.Return >= window.Begin
			})
			switch {
			case op.Kind == PlainRead && isExcused:
				excused = append(excused, op)
			case op.Kind == PlainRead:
				plain = append(plain, op)
			}
		}
		summary.PlainReads += len(plain) + len(excused)
		summary.ExcusedReads += len(excused)
		summary.ExcusedOld += len(ages(ops, excused))
		var copies []*Op
		for _, op := range last {
			if op.Kind == PlainRead {
				copies = append(copies, op)
			}
		}
		isDifferent := copies[0].Found != copies[1].Found
		if isDifferent {
			summary.Different = append(summary.Different, key)
		}

		of := checkKey(ops, plain, last, windows)
		if load.mayLose && !of.isRight() {
			weaker := mayBeLost(ops, windows)
			if again := checkKey(weaker, plain, last, windows); again.isRight() {
				summary.LostAsDocumented = append(summary.LostAsDocumented, key)
				continue
			}
		}
		summary.OldReads += len(of.old)
		if len(of.lost) > 0 {
			summary.Lost = append(summary.Lost, key)
		}
		if of.isUndone {
			summary.UndoneKeys = append(summary.UndoneKeys, key)
		}
		switch of.result {
		case porcupine.Illegal:
			summary.IllegalKeys = append(summary.IllegalKeys, key)
		case porcupine.Unknown:
			summary.UndecidedKeys = append(summary.UndecidedKeys, key)
		}
		isWrong := !of.isRight()
		if (isWrong || of.isUndone || isDifferent) && written[isWrong] < writtenMax {
			written[isWrong]++
			writeHistory(filepath.Join(out, fmt.Sprintf("key-%d", key)), append(ops, last...), of, windows)
		}
	}
	summary.Linearizable = len(summary.IllegalKeys)+len(summary.UndecidedKeys) == 0
}

// writeHistory writes all operations of a key in the order of their calls, and porcupine's diagram.
func writeHistory(name string, ops []*Op, of *verdict, windows []Window) {
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Call, b.Call) })
	file, err := os.Create(name + ".txt")
	if err == nil {
		defer file.Close()
		for _, window := range windows {
			fmt.Fprintf(file, "event from %.3f to %.3f ms\n", float64(window.Begin)/1e6, float64(window.End)/1e6)
		}
		for _, op := range ops {
			remark := ""
			if slices.Contains(of.old, op) || slices.Contains(of.lost, op) {
				remark = " <- older than a write that was acknowledged before"
			}
			fmt.Fprintf(file, "%.3f to %.3f ms, worker %d, node %d: %s%s\n", float64(op.Call)/1e6, float64(op.Return)/1e6, op.Worker, op.Node, op, remark)
		}
		err = porcupine.VisualizePath(model, of.info, name+".html")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "warning: cannot write the history %s: %s\n", name, err)
	}
}
