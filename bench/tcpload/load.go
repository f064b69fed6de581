package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/bench/tcpprog"
)

// load makes requests on independent connections for the time r.length, and prints the result.
// Requests without an answer by then do not count.
func (r *request) load(ctx context.Context, out io.Writer) error {
	// The context has no deadline, because then dials would fail before the context reports that
	// its time is over.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	time.AfterFunc(r.length, cancel)
	var l loader
	var wg sync.WaitGroup
	for range r.conns {
		wg.Go(func() { l.run(ctx, r) })
	}
	wg.Wait()
	seen := l.sum()
	seen.Seconds = time.Since(began).Seconds()
	b, err := json.Marshal(seen)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s%s\n", tcpprog.LoadPrefix, b)
	return err
}

// A loader counts the failures and the latencies of all clients.
type loader struct {
	connect, read, write, wrong atomic.Int64
	longest                     atomic.Int64 // the longest latency, in ns
	times                       [buckets]atomic.Int64
}

// Latencies are counted in buckets. Each bucket is wider than the one before by the factor growth.
// The first bucket begins at a microsecond, and the last one at half an hour.
const (
	buckets = 1 << 11
	growth  = 1.0105
)

func bucketOf(d time.Duration) int {
	return min(max(int(math.Log(float64(max(d, 1))/1e3)/math.Log(growth)), 0), buckets-1)
}

// middle returns the time in the middle of a bucket, in microseconds.
func middle(bucket int) float64 { return math.Pow(growth, float64(bucket)+0.5) }

// run is one client: it makes requests until ctx ends, and opens a new connection when one is
// closed.
func (l *loader) run(ctx context.Context, r *request) {
	for ctx.Err() == nil {
		c, err := r.dial(ctx)
		if err != nil {
			l.fault(ctx, &l.connect)
			continue
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		l.use(ctx, r, c)
		stop()
		c.Close()
	}
}

// use makes requests on a connection until the connection is closed or ctx ends.
func (l *loader) use(ctx context.Context, r *request, c client) {
	for ctx.Err() == nil {
		began := time.Now()
		_ = c.SetDeadline(began.Add(answerTime))
		if _, err := c.Write(r.Request()); err != nil {
			l.fault(ctx, &l.write)
			return
		}
		err := r.Read(c.r)
		if err != nil && !errors.Is(err, tcpprog.ErrWrong) {
			l.fault(ctx, &l.read)
			return
		}
		if err != nil {
			l.wrong.Add(1)
		}
		took := time.Since(began)
		l.times[bucketOf(took)].Add(1)
		for {
			longest := l.longest.Load()
			if int64(took) <= longest || l.longest.CompareAndSwap(longest, int64(took)) {
				break
			}
		}
		if r.Close {
			return
		}
	}
}

// faultPause is how long a client waits after a failure, because requests might fail at once.
const faultPause = 10 * time.Millisecond

// fault counts a failure, unless the failure is due to the end of ctx.
func (l *loader) fault(ctx context.Context, n *atomic.Int64) {
	if ctx.Err() == nil {
		n.Add(1)
		time.Sleep(faultPause)
	}
}

func (l *loader) sum() tcpprog.Load {
	total := int64(0)
	for i := range l.times {
		total += l.times[i].Load()
	}
	return tcpprog.Load{
		Requests: float64(total), Connect: float64(l.connect.Load()), Read: float64(l.read.Load()),
		Write: float64(l.write.Load()), Status: float64(l.wrong.Load()),
		P50: l.quantile(total, 0.5), P90: l.quantile(total, 0.9), P99: l.quantile(total, 0.99), Max: float64(l.longest.Load()) / 1e3,
	}
}

// quantile returns a quantile of the latencies, in microseconds: the latency that the given share,
// 0 to 1, of the `total` requests does not exceed. It returns 0 if there were no requests.
func (l *loader) quantile(total int64, share float64) float64 {
	below, want := int64(0), int64(math.Ceil(share*float64(total)))
	for i := range l.times {
		if below += l.times[i].Load(); below >= want && below > 0 {
			return middle(i)
		}
	}
	return 0
}
