// linearizability runs a load on two nodes of `flashproof engine serve` by Aerospike's own client. Meanwhile its caller
// kills, stops and separates the nodes. Then the program checks the results of all operations.
//
// The caller writes a line to standard input at each event:
//
//	event NAME         an event at a node begins now
//	silent NAME        the same, and the second node may lose contact with the first, so its plain reads may be old
//	whole              both nodes have all records again; the load continues with other keys
//	end                ends the load and begins the checks
//
// The line "ready" on standard error means that the load runs. The summary is a line of JSON on standard output. Illegal
// histories are written to a directory, as text and as a diagram by porcupine. The set must be empty at the start.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	aero "github.com/aerospike/aerospike-client-go/v8"
)

// Event is an event that the caller announced.
type Event struct {
	Window
	name     string
	isSilent bool
}

func main() {
	nodes := flag.String("nodes", "127.0.0.1:3000", "HOST:PORT of the nodes, in the order of mesh-seed-address-port")
	keys := flag.Int("keys", 500, "number of keys in use; each event is followed by new keys")
	workers := flag.Int("workers", 32, "number of clients at once")
	measure := flag.Duration("measure", 2*time.Second, "time for measuring the highest rate; the load is half of this rate")
	rateMax := flag.Float64("rate-max", 1e9, "maximum load, operations per second")
	mayLose := flag.Bool("may-lose", false, "writes that were acknowledged around an event may be lost")
	out := flag.String("out", ".", "directory for illegal histories")
	flag.Parse()
	// Less garbage collection, because the history only grows.
	debug.SetGCPercent(400)
	if err := run(*nodes, *keys, *workers, *measure, *rateMax, *mayLose, *out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(nodes string, keys, workers int, measure time.Duration, rateMax float64, mayLose bool, out string) error {
	hosts, err := aero.NewHosts(strings.Split(nodes, ",")...)
	if err != nil {
		return fmt.Errorf("--nodes %s: %w", nodes, err)
	}
	policy := aero.NewClientPolicy()
	policy.Timeout, policy.TendInterval, policy.MaxErrorRate = timeout, 200*time.Millisecond, 0
	policy.ConnectionQueueSize = 2 * workers
	client, err := aero.NewClientWithPolicyAndHost(policy, hosts...)
	for begin := time.Now(); err != nil && time.Since(begin) < patience; {
		// Retries, because a connection on a busy machine may take longer than the time limit of an operation.
		client, err = aero.NewClientWithPolicyAndHost(policy, hosts...)
	}
	if err != nil {
		return fmt.Errorf("cannot connect to %s: %w", nodes, err)
	}
	defer client.Close()
	load := newLoad(client, hosts, keys, workers)
	load.mayLose = mayLose

	highest := load.measure(measure)
	rate := min(highest/2, rateMax)
	load.perWorker = time.Duration(float64(workers) / rate * float64(time.Second))
	load.records = true
	load.ends.Store(false)
	load.round.Store(0)
	homes, failed := load.homes()
	if failed != nil {
		return failed
	}
	workersEnd := load.run()
	fmt.Fprintf(os.Stderr, "ready: highest rate %.0f/s, load %.0f/s\n", highest, rate)
	events, failed := load.follow(bufio.NewScanner(os.Stdin))
	load.ends.Store(true)
	workersEnd.Wait()
	if failed != nil {
		return failed
	}
	final, failed := load.readAll()
	if failed != nil {
		return failed
	}
	summary := load.summarize(events, homes, final, out)
	summary.HighestRate, summary.Rate = int(highest), int(rate)
	return json.NewEncoder(os.Stdout).Encode(summary)
}

// measure returns the total operations per second of all workers without pauses, on keys that the load does not use.
func (load *Load) measure(duration time.Duration) float64 {
	load.round.Store(roundsMax - 1)
	end := load.run()
	// Connections are opened during this time.
	time.Sleep(duration / 4)
	before, began := load.done.Load(), time.Now()
	time.Sleep(duration - duration/4)
	rate := float64(load.done.Load()-before) / time.Since(began).Seconds()
	load.ends.Store(true)
	end.Wait()
	return max(rate, 1)
}

// homes returns, for each key, the index of the node that is its master while the nodes are paired.
func (load *Load) homes() ([]int, error) {
	homes := make([]int, load.keys*roundsMax)
	for number := range homes {
		key, err := aero.NewKey(namespace, set, number)
		if err != nil {
			return nil, err
		}
		partition, err := aero.PartitionForWrite(load.client.Cluster(), aero.NewPolicy(), key)
		if err != nil {
			return nil, err
		}
		node, err := partition.GetNodeWrite(load.client.Cluster())
		if err != nil {
			return nil, err
		}
		homes[number] = max(int(load.place(node)), 0)
	}
	return homes, nil
}

// follow records the caller's events until the end.
func (load *Load) follow(lines *bufio.Scanner) ([]*Event, error) {
	var events []*Event
	for lines.Scan() {
		what, name, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "event", "silent":
			events = append(events, &Event{Window{load.now(), Never}, name, what == "silent"})
		case "whole":
			if len(events) == 0 || len(events) > roundsMax-2 {
				return nil, fmt.Errorf("line \"whole\" after %d events - it must follow 1 to %d events", len(events), roundsMax-2)
			}
			events[len(events)-1].End = load.now()
			load.round.Store(int64(len(events)))
		case "end":
			return events, nil
		default:
			return nil, fmt.Errorf("unknown line %q", lines.Text())
		}
	}
	return nil, fmt.Errorf("standard input ended without a line \"end\"")
}
