// Workers that read and write records by Aerospike's own client, and record the answers with their times.

package main

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	aero "github.com/aerospike/aerospike-client-go/v8"
	"github.com/aerospike/aerospike-client-go/v8/types"
)

const (
	namespace = "test"
	set       = "linear"
	valueBin  = "value"
	countBin  = "count"
	// Time after which the outcome of an operation counts as unknown.
	timeout = 500 * time.Millisecond
	// Maximum number of key sets: one for each event, and one for the measurement of the highest rate.
	roundsMax = 256
)

// Failure is a write that was not acknowledged, or a read that was not answered.
type Failure struct {
	Code      int
	IsUnknown bool
	IsWrite   bool
	Return    int64
}

// worker is a client thread with its part of the history.
type worker struct {
	load     *Load
	number   int16
	random   *rand.Rand
	ops      []*Op
	failures []Failure
}

// Load has all workers, and the keys of the current round.
type Load struct {
	client *aero.Client
	// hosts of the nodes, in the order of --nodes.
	hosts []*aero.Host
	keys  int
	start time.Time
	round atomic.Int64
	// records is false while the highest rate is measured.
	records bool
	// mayLose is true if the master acknowledges writes alone. Writes acknowledged around an event may then be lost.
	mayLose bool
	done    atomic.Int64
	ends    atomic.Bool
	// perWorker is the time between two operations of a worker.
	perWorker time.Duration
	// generations of all keys from the last reads. A swap expects this generation.
	generations []atomic.Uint32
	values      atomic.Int64
	workers     []*worker
}

func newLoad(client *aero.Client, hosts []*aero.Host, keys, workers int) *Load {
	load := &Load{client: client, hosts: hosts, keys: keys, start: time.Now(), generations: make([]atomic.Uint32, keys*roundsMax)}
	for number := range int16(workers) {
		random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(number)))
		load.workers = append(load.workers, &worker{load: load, number: number, random: random})
	}
	return load
}

func (load *Load) now() int64 { return int64(time.Since(load.start)) }

// run starts the workers, which work until the load ends. The returned group waits for them.
func (load *Load) run() *sync.WaitGroup {
	var group sync.WaitGroup
	for _, worker := range load.workers {
		group.Add(1)
		go func() {
			defer group.Done()
			worker.run()
		}()
	}
	return &group
}

func (worker *worker) run() {
	load := worker.load
	next := time.Now().Add(time.Duration(worker.random.Int64N(int64(load.perWorker + 1))))
	for !load.ends.Load() {
		if load.perWorker > 0 {
			time.Sleep(time.Until(next))
			next = next.Add(load.perWorker)
			// If the worker is late, operations that were due in the meantime are skipped.
			if late := time.Since(next); late > 0 {
				next = time.Now()
			}
		}
		worker.execute(worker.draw())
		load.done.Add(1)
	}
}

// draw returns the next operation. Workers with odd numbers only read. Half of these read only at the master, so that some
// reads continue while other workers wait for a dead node. Some reads use keys of earlier rounds.
func (worker *worker) draw() *Op {
	load, round := worker.load, int(worker.load.round.Load())
	op := &Op{Worker: worker.number, Node: -1}
	draw := worker.random.IntN(100)
	if worker.number%2 == 1 {
		if !worker.asksMaster() && draw >= 50 {
			op.Kind = PlainRead
		}
		if load.records && draw%7 == 0 {
			round = worker.random.IntN(round + 1)
		}
	} else {
		switch {
		case draw < 40:
			op.Kind = Put
		case draw < 60:
			op.Kind = Add
		case draw < 90:
			op.Kind = Swap
		default:
			op.Kind = Delete
		}
	}
	op.Key = int32(round*load.keys + worker.random.IntN(load.keys))
	if op.Kind == Swap {
		op.Expected = uint16(load.generations[op.Key].Load())
	}
	return op
}

func (worker *worker) asksMaster() bool { return worker.number%4 == 1 }

// execute performs an operation and records it.
func (worker *worker) execute(op *Op) bool {
	load := worker.load
	if op.Kind == Put || op.Kind == Swap {
		op.Value = load.values.Add(1)
	}
	op.Call = load.now()
	failed := worker.ask(op)
	op.Return = load.now()
	if failed != nil {
		isUnknown := op.Kind.writes() && isUnknown(failed)
		if load.records {
			worker.failures = append(worker.failures, Failure{int(failed.ResultCode), isUnknown, op.Kind.writes(), op.Return})
		}
		if !isUnknown {
			return false
		}
		op.IsUnknown = true
	}
	if load.records {
		worker.ops = append(worker.ops, op)
	}
	return failed == nil
}

func (worker *worker) ask(op *Op) *aero.AerospikeError {
	client := worker.load.client
	key, err := aero.NewKey(namespace, set, int(op.Key))
	if err != nil {
		return failure(err)
	}
	policy := aero.NewWritePolicy(0, 0)
	policy.TotalTimeout, policy.SocketTimeout, policy.MaxRetries = timeout, timeout, 0
	switch op.Kind {
	case Read, PlainRead:
		return worker.read(key, op)
	case Put:
		return failure(client.PutBins(policy, key, aero.NewBin(valueBin, op.Value)))
	case Add:
		return failure(client.AddBins(policy, key, aero.NewBin(countBin, 1)))
	case Swap:
		policy.GenerationPolicy, policy.Generation = aero.EXPECT_GEN_EQUAL, uint32(op.Expected)
		failed := failure(client.PutBins(policy, key, aero.NewBin(valueBin, op.Value)))
		if failed != nil && failed.ResultCode == types.GENERATION_ERROR {
			return nil
		}
		op.DidMatch = failed == nil
		return failed
	default:
		did, err := client.Delete(policy, key)
		op.DidMatch = did
		return failure(err)
	}
}

func (worker *worker) read(key *aero.Key, op *Op) *aero.AerospikeError {
	policy := aero.NewPolicy()
	policy.TotalTimeout, policy.SocketTimeout, policy.MaxRetries = timeout, timeout, 0
	if !worker.asksMaster() || op.Kind == PlainRead {
		policy.ReplicaPolicy = aero.RANDOM
	}
	if op.Kind == Read {
		if worker.random.IntN(2) == 0 {
			policy.ReadModeSC = aero.ReadModeSCLinearize
		} else {
			policy.ReadModeAP = aero.ReadModeAPAll
		}
	}
	record, err := worker.load.client.Get(policy, key)
	failed := failure(err)
	switch {
	case failed == nil:
		count := func(name string) int64 {
			number, _ := record.Bins[name].(int)
			return int64(number)
		}
		op.Found = Record{count(valueBin), int32(count(countBin)), uint16(record.Generation), true}
		op.Node = worker.load.place(record.Node)
	case failed.ResultCode == types.KEY_NOT_FOUND_ERROR:
		op.Node = worker.load.place(failed.Node)
		failed = nil
	default:
		return failed
	}
	if op.Kind == Read {
		worker.load.generations[op.Key].Store(uint32(op.Found.Generation))
	}
	return nil
}

// place returns the index of a node in --nodes; -1 if it is not there.
func (load *Load) place(node *aero.Node) int8 {
	for place, host := range load.hosts {
		if node != nil && node.GetHost().Name == host.Name && node.GetHost().Port == host.Port {
			return int8(place)
		}
	}
	return -1
}

func failure(err aero.Error) *aero.AerospikeError {
	if err == nil {
		return nil
	}
	failed := &aero.AerospikeError{}
	if !errors.As(err, &failed) {
		failed = &aero.AerospikeError{ResultCode: types.COMMON_ERROR}
	}
	return failed
}

// isUnknown returns false if a failed write certainly had no effect: the server refused it with code 11, or the client had
// no node or connection for it. With MaxRetries 0, TIMEOUT is the outermost error only if the client sent nothing.
func isUnknown(failed *aero.AerospikeError) bool {
	if failed.ResultCode == types.PARTITION_UNAVAILABLE {
		return false
	}
	isOuter := true
	for err := error(failed); err != nil; err = errors.Unwrap(err) {
		at, ok := err.(*aero.AerospikeError)
		if !ok {
			return true
		}
		switch at.ResultCode {
		case types.NO_AVAILABLE_CONNECTIONS_TO_NODE, types.INVALID_NODE_ERROR:
		case types.PARTITION_UNAVAILABLE, types.MAX_RETRIES_EXCEEDED:
		case types.TIMEOUT:
			if !isOuter {
				return true
			}
		default:
			return true
		}
		isOuter = false
	}
	return false
}
