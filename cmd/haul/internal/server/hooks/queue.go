package hooks

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/system/privilege"
	"github.com/haul-project/haul/cmd/haul/internal/system/smallfile"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/shares"
)

const (
	// startTime is how long the first helper may take to start.
	startTime = 10 * time.Second

	// closeTime is how long the server continues to run hooks of waiting events when it shuts down.
	closeTime = 10 * time.Second

	// spareTime is how long the helper may take to report after a hook's time limit. A helper that
	// takes longer is killed, because it was stopped or hangs. The time covers killTime,
	// outputTime, and the pauses between posts.
	spareTime = 10 * time.Second
)

// A Config lists the hooks, and says how to run them.
type Config struct {
	Hooks []Hook
	User  *privilege.User // the user that the helper becomes; nil means no change
	Env   []string        // the environment of the helper, which passes a part of it to programs
	Log   *slog.Logger
}

// CheckFiles reads the keys and checks that the programs exist. Its error names the faulty hook.
func CheckFiles(all []Hook) error {
	_, err := readKeys(all)
	return err
}

// readKeys returns the keys of the hooks. The key of a hook without a key is nil.
func readKeys(all []Hook) (keys [][]byte, err error) {
	for _, h := range all {
		var key []byte
		if h.Key != "" {
			if key, err = smallfile.Read(h.Key, maxKey); err != nil {
				return nil, fmt.Errorf("read the key of the hook for %s: %w", h.Target(), err)
			}
			if key = []byte(strings.TrimRight(string(key), "\r\n")); len(key) < minKey {
				return nil, fmt.Errorf("the key of the hook for %s in %s has %d bytes, and needs %d at least", h.Target(), h.Key, len(key), minKey)
			}
		}
		if len(h.Run) > 0 {
			if err := checkProgram(h.Run[0]); err != nil {
				return nil, fmt.Errorf("the hook's program %w", err)
			}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// A Queue holds events that wait for their hooks, and has the helper run these hooks. A nil *Queue
// does nothing.
type Queue struct {
	hooks   []Hook
	log     *linequeue.Log
	failed  linequeue.RateLimited
	dropped linequeue.RateLimited
	few     linequeue.Budget // bounds the runs that strangers can cause
	helper  *helper
	waiting *turns
	closing chan struct{} // closed when the server shuts down
	gone    chan struct{} // closed when the supervisor has died, so no further helper will start
	lines   [maxRunning]chan helperEnd
	working sync.WaitGroup
	running atomic.Int64

	results  [len(results)]atomic.Int64
	lost     atomic.Int64
	restarts atomic.Int64
}

// results lists the possible results of a run. "stuck" means that a program was killed and has not
// exited.
var results = [...]string{"done", "failed", "timeout", "stuck"}

// Start starts the supervisor and the helper. They keep the rights of this process until they
// become the configured user. Start returns an error if the configuration is wrong or the helper
// cannot be started.
func Start(cfg Config) (*Queue, error) {
	keys, err := readKeys(cfg.Hooks)
	if err != nil {
		return nil, err
	}
	q := newQueue(cfg)
	q.helper, err = startHelper(setup{Hooks: cfg.Hooks, Keys: keys, User: cfg.User}, cfg.Env)
	if err == nil {
		err = q.connect(startTime)
	}
	if err != nil {
		q.helper.close()
		q.log.Close()
		return nil, fmt.Errorf("start the process that runs hooks: %w", err)
	}
	go q.follow()
	for i := range q.lines {
		q.working.Go(func() { q.work(q.lines[i]) })
	}
	return q, nil
}

func newQueue(cfg Config) *Queue {
	q := &Queue{
		hooks: cfg.Hooks, log: linequeue.NewLog(cfg.Log),
		waiting: newTurns(len(cfg.Hooks)), closing: make(chan struct{}), gone: make(chan struct{}),
	}
	q.failed = linequeue.RateLimited{Log: q.log, Message: "hook", Unit: "runs"}
	q.dropped = linequeue.RateLimited{Log: q.log, Message: "hooks are not run", Unit: "runs"}
	q.few.RateLimited = linequeue.RateLimited{Log: q.log, Message: "hooks are not run, as one source or all cause too many", Unit: "runs"}
	for i := range q.lines {
		q.lines[i] = make(chan helperEnd, 1)
	}
	return q
}

// connect waits for the lines to the next helper, and hands them to the workers. The lines to the
// previous helper are closed.
func (q *Queue) connect(limit time.Duration) error {
	all, number, err := q.helper.next(limit)
	if err != nil {
		return err
	}
	for i, c := range all {
		select {
		case old := <-q.lines[i]: // a line to the previous helper that no worker has received
			_ = old.Close()
		default:
		}
		q.lines[i] <- helperEnd{c, number}
	}
	return nil
}

// follow receives the lines to each helper after the first, until the supervisor dies.
func (q *Queue) follow() {
	defer close(q.gone)
	for logged := false; ; {
		err := q.connect(0)
		switch {
		case err == nil:
			q.restarts.Add(1)
			q.log.Say(slog.LevelWarn, "hooks: the helper has died, and runs again")
			logged = false
		case errors.Is(err, errNoLines): // this helper exits, because its lines are closed; the supervisor starts the next one
			if !logged {
				q.log.Say(slog.LevelError, "hooks: the helper has died, and the next one cannot be used; others are tried", slog.String("error", err.Error()))
			}
			logged = true
		default:
			if !isClosed(q.closing) {
				q.log.Say(slog.LevelError, "hooks: the supervisor has died, so nothing starts the helper again; it runs hooks as long as it lives, and none is run after that: reload haul, or start it again", slog.String("error", err.Error()))
			}
			return
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Send queues a run for each hook that the event triggers. It never blocks.
func (q *Queue) Send(e activity.Event) {
	if q == nil {
		return
	}
	for i := range q.hooks {
		if !q.hooks[i].wants(e.Event) {
			continue
		}
		w := waiting{i, e}
		switch {
		case isClosed(q.closing):
			q.drop("the server ends", w)
		case (e.Event == activity.Boot || e.Fruitless()) && !q.takes(i, &e):
			q.lost.Add(1)
		case !q.waiting.add(w):
			q.drop("too many wait", w)
		}
	}
}

// takes reports whether a hook may be run for an event that strangers can cause.
func (q *Queue) takes(hook int, e *activity.Event) bool {
	source, last := e.Source(), e.Peer
	if source == (shares.Source{}) { // a machine that has no address yet
		source, last = shares.Source{User: e.MAC}, e.MAC
	}
	return q.few.Take(e.Time, fmt.Sprintf("hook %d, %s: %s", hook+1, q.hooks[hook].Target(), e.Event), source, last)
}

// drop counts and logs a run that was not started, or whose result is unknown.
func (q *Queue) drop(why string, w waiting) {
	q.lost.Add(1)
	q.dropped.Count(slog.LevelWarn, why, w.event.Peer, slog.String("event", string(w.event.Event)), slog.String("file", w.event.File))
}

// next waits for the next run. It returns false if the server shuts down and no run waits.
func (q *Queue) next() (w waiting, ok bool) {
	select {
	case <-q.waiting.some:
		return q.waiting.take(), true
	case <-q.closing:
	}
	select {
	case <-q.waiting.some:
		return q.waiting.take(), true
	default:
		return w, false
	}
}

// work is the work of one worker: it runs hooks one after another, through a line to the current
// helper.
func (q *Queue) work(lines <-chan helperEnd) {
	var line *workerLine
	defer func() { line.close() }()
	for {
		w, ok := q.next()
		if !ok {
			return
		}
		for done := false; !done; {
			if line == nil {
				if line = q.newLine(lines); line == nil {
					q.drop("the helper is gone", w)
					break
				}
			}
			q.running.Add(1)
			sent, err := q.run(line, w)
			q.running.Add(-1)
			if done = sent; err == nil {
				continue
			}
			q.helper.kill(line.number) // if the helper is still alive, it hangs or has closed the line
			line.close()
			line = nil
			if sent { // otherwise no helper has started the run, so the next helper runs it
				q.drop("the helper died", w)
			}
		}
	}
}

// newLine waits for a line to a helper. It returns nil if no further helper will start.
func (q *Queue) newLine(lines <-chan helperEnd) *workerLine {
	select {
	case c := <-lines:
		return newWorkerLine(c)
	default:
	}
	select {
	case c := <-lines:
		return newWorkerLine(c)
	case <-q.gone:
		return nil
	}
}

// A helperEnd is the server's end of a line to a helper process.
type helperEnd struct {
	net.Conn
	number int // the number of the helper process, from 1 on
}

// A workerLine is a worker's line to the helper. The helper runs one hook at a time for each line.
type workerLine struct {
	helperEnd
	lines *bufio.Reader
}

func newWorkerLine(c helperEnd) *workerLine { return &workerLine{c, bufio.NewReaderSize(c, maxLine)} }

func (l *workerLine) close() {
	if l != nil {
		_ = l.Conn.Close()
	}
}

// run makes the helper run a hook, and waits for the result. If it returns an error, sent says
// whether the helper may have started the hook.
func (q *Queue) run(line *workerLine, w waiting) (sent bool, err error) {
	h := &q.hooks[w.hook]
	w.event.CheckPath() // the run may have waited for long
	text, err := json.Marshal(order{Hook: w.hook, Event: w.event.AppendLine(nil), Variables: w.event.Variables()})
	if err != nil { // impossible, because all types can be encoded
		return true, err
	}
	_ = line.SetDeadline(time.Now().Add(h.timeout() + spareTime))
	if _, err := line.Write(append(text, '\n')); err != nil {
		return false, err
	}
	answer, err := line.lines.ReadSlice('\n')
	if err != nil {
		return true, err
	}
	var o outcome
	if err := json.Unmarshal(answer, &o); err != nil {
		return true, err
	}
	i := slices.Index(results[:], o.Result)
	if i < 0 {
		return true, errors.New("the helper reports no result")
	}
	q.results[i].Add(1)
	if i > 0 {
		q.failed.Count(slog.LevelWarn, h.Target()+": "+o.Result, w.event.Peer,
			slog.String("event", string(w.event.Event)), slog.String("file", w.event.File), slog.String("error", o.Error))
	}
	return true, nil
}

// RegisterMetrics registers the counters.
func (q *Queue) RegisterMetrics(r *meter.Registry) {
	if q == nil {
		return
	}
	for i, result := range results {
		r.Counter("hook_runs_total", "Hooks that were run.", q.results[i].Load, "result", result)
	}
	r.Counter("hook_runs_lost_total", "Hooks that were not run as too many waited, or whose helper died.", q.lost.Load)
	r.Counter("hook_helper_restarts_total", "Times that the process that runs hooks has died, and was started again.", q.restarts.Load)
	r.Gauge("hook_supervisor_up", "1 while the process lives that starts the helper for hooks again. At 0 no hook is run once the helper has died too.", func() float64 {
		if isClosed(q.gone) {
			return 0
		}
		return 1
	})
	r.Gauge("hook_runs_waiting", "Hooks that wait for their turn.", func() float64 { return float64(len(q.waiting.some)) })
}

// Close lets waiting hooks run for at most closeTime, and then stops the helper. Hooks that are
// already running may finish, within their own time limits.
func (q *Queue) Close() {
	if q != nil {
		q.close(closeTime)
	}
}

func (q *Queue) close(limit time.Duration) {
	close(q.closing)
	done := make(chan struct{})
	go func() { q.working.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
	}
	q.helper.close()
	for left := true; left; {
		select {
		case <-q.waiting.some:
			q.drop("the server ends", q.waiting.take())
		default:
			left = false
		}
	}
	if n := q.running.Load(); n > 0 {
		q.log.Say(slog.LevelWarn, "hooks: some still run as the server ends; how they end is not logged", slog.Int64("runs", n))
	}
	q.failed.Flush()
	q.dropped.Flush()
	q.few.Flush()
	q.log.Close()
}
