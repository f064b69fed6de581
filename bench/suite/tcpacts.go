package suite

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
	"github.com/haul-project/haul/bench/tcpprog"
)

// requests is an act: clients make requests for the time Length of the scenario, on Concurrency
// connections. A warm-up first checks whether the answers are right.
func requests(ctx context.Context, st *stage, warmup bool) (tally, error) {
	length := time.Duration(st.sc.Length * float64(time.Second))
	if warmup {
		// A load that is not longer than its warm-up need not be exact, so it is not warmed up.
		if err := st.check(ctx); err != nil || length <= tcpWarmup {
			return tally{}, err
		}
		length = tcpWarmup
	}
	cmd, err := st.generator(ctx, length)
	if err != nil {
		return tally{}, err
	}
	var out, said bounded
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, clientEnds
	u, err := peer.Metered(ctx, cmd)
	if err != nil {
		return tally{}, fmt.Errorf("load generator: %w: %s", err, bytes.TrimSpace(said.b))
	}
	l, err := loadIn(out.b)
	if err != nil {
		return tally{}, err
	}
	return st.loadTally(l, u), nil
}

// generator returns the command that makes the load for the time `length`: wrk with one thread, or
// tcpload on machines without wrk.
func (st *stage) generator(ctx context.Context, length time.Duration) (*exec.Cmd, error) {
	set := peer.Set{Tools: st.suite.tools}
	if _, ok := set.Tool(peer.Wrk); !ok {
		return st.tcpload(ctx, "load", st.sc.Concurrency, length)
	}
	script := filepath.Join(st.local, "script.lua")
	if err := os.WriteFile(script, []byte(wrkScript(st.sc.Close)), 0o644); err != nil {
		return nil, fmt.Errorf("write a script for wrk: %w", err)
	}
	scheme := "http"
	if st.sc.TLS {
		scheme = "https"
	}
	path := ""
	if st.isFile() {
		path = fileName(st.sc.Size, "0")
	}
	return st.tool(ctx, peer.Wrk, "--threads", "1", "--connections", strconv.Itoa(st.sc.Concurrency),
		"--duration", fmt.Sprintf("%.0fs", length.Seconds()), "--timeout", "10s", "--script", script,
		fmt.Sprintf("%s://%s/%s", scheme, st.server.Addr(), path))
}

// wrkScript returns a script that makes wrk print a tcpprog.Load. If `each` is set, each request
// asks for the connection to be closed.
func wrkScript(each bool) string {
	script := ""
	if each {
		script = "wrk.headers[\"Connection\"] = \"close\"\n"
	}
	return script + `done = function(summary, latency, requests)
	local e = summary.errors
	print(string.format('` + tcpprog.LoadPrefix + `{"requests":%d,"seconds":%.6f,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,' ..
		'"p50_us":%d,"p90_us":%d,"p99_us":%d,"max_us":%d}',
		summary.requests, summary.duration / 1e6, e.connect, e.read, e.write, e.status, e.timeout,
		latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max))
end
`
}

// loadIn parses the tcpprog.Load in the output of a load generator.
func loadIn(out []byte) (tcpprog.Load, error) {
	var l tcpprog.Load
	for line := range bytes.Lines(out) {
		text, ok := bytes.CutPrefix(line, []byte(tcpprog.LoadPrefix))
		if !ok {
			continue
		}
		if err := json.Unmarshal(text, &l); err != nil {
			return l, fmt.Errorf("what the load generator printed is no result: %w: %q", err, text)
		}
		if l.Seconds <= 0 {
			return l, fmt.Errorf("the load generator says that it ran for %v s", l.Seconds)
		}
		return l, nil
	}
	return l, fmt.Errorf("the load generator printed no result: %q", out)
}

func (st *stage) loadTally(l tcpprog.Load, u peer.Usage) tally {
	t := tally{
		seconds: l.Seconds, bytes: l.Requests * float64(st.sc.Size), requests: l.Requests,
		figures: map[record.Metric]float64{
			record.Transfers: l.Tried(), record.Failed: l.Failed(), record.Timeouts: l.Timeout,
			record.LatencyP50: l.P50 / 1e3, record.LatencyP90: l.P90 / 1e3, record.LatencyP99: l.P99 / 1e3, record.LatencyMax: l.Max / 1e3,
			record.GeneratorCPU: u.CPU.Seconds() / u.Wall.Seconds(),
		},
		warnings: st.pinning(),
	}
	for _, f := range []struct {
		n    float64
		what string
	}{
		{l.Connect, "connections that failed"}, {l.Read, "failures to read"}, {l.Write, "failures to write"},
		{l.Status, "answers that were errors"}, {l.Timeout, "answers after 10 s"},
	} {
		if f.n > 0 {
			t.warnings = append(t.warnings, fmt.Sprintf("%.0f %s, of %.0f requests", f.n, f.what, l.Tried()))
		}
	}
	return t
}

const (
	idleLimit  = 40 * time.Second      // time limit for opening the connections and measuring memory
	idleSettle = 2 * time.Second       // pause in which memory that only opening needed is released
	stacksTime = 2 * time.Second       // how long a program may take to report the size of its stacks
	stacksPoll = 10 * time.Millisecond // interval between two checks whether it has reported that
)

// idle is an act: it opens connections, makes one request on each, and measures the server's memory
// while they stay open and send nothing.
func idle(ctx context.Context, st *stage, warmup bool) (tally, error) {
	if warmup {
		return tally{}, st.check(ctx)
	}
	before, err := st.resident(ctx)
	if err != nil {
		return tally{}, err
	}
	n := st.sc.Concurrency
	cmd, err := st.tcpload(ctx, "hold", n, idleLimit)
	if err != nil {
		return tally{}, err
	}
	began := time.Now()
	h, err := startHolding(cmd)
	if err != nil {
		return tally{}, err
	}
	open, err := h.opened()
	seconds := time.Since(began).Seconds()
	if err != nil {
		return tally{}, errors.Join(err, h.end())
	}
	time.Sleep(idleSettle)
	after, err := st.resident(ctx)
	if ended := h.end(); err == nil && open == n { // if connections have failed, the count reports that
		err = ended
	}
	if err != nil {
		return tally{}, err
	}
	t := tally{seconds: seconds, bytes: float64(open) * float64(st.sc.Size), warnings: st.pinning(), figures: map[record.Metric]float64{
		record.Transfers: float64(n), record.Failed: float64(n - open), record.IdleMemory: after.all / 1e6,
	}}
	if open > 0 {
		t.figures[record.IdlePerConn] = (after.all - before.all) / 1e3 / float64(open)
		if after.stacks > 0 {
			t.figures[record.IdleBeyondStacks] = (after.all - before.all - after.stacks + before.stacks) / 1e3 / float64(open)
		}
	}
	return t, nil
}

// A holder is a running "tcpload hold", which keeps connections open until its standard input ends.
type holder struct {
	cmd  *exec.Cmd
	in   io.Closer
	out  *bufio.Reader
	said bounded
}

func startHolding(cmd *exec.Cmd) (*holder, error) {
	h := &holder{cmd: cmd}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.in, h.out = in, bufio.NewReader(out)
	cmd.Stderr, cmd.WaitDelay = &h.said, clientEnds
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("hold connections: %w", err)
	}
	return h, nil
}

// opened waits until the program has opened its connections, and returns their number.
func (h *holder) opened() (n int, err error) {
	line, err := h.out.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("hold connections: %w: %q", err, line)
	}
	if _, err := fmt.Sscanf(line, "open %d", &n); err != nil {
		return 0, fmt.Errorf("hold connections: it said %q", line)
	}
	return n, nil
}

func (h *holder) end() error {
	_ = h.in.Close() // fails only if the program has exited
	if err := h.cmd.Wait(); err != nil {
		return fmt.Errorf("hold connections: %w: %s", err, bytes.TrimSpace(h.said.b))
	}
	return nil
}

// A footprint is the memory that a server uses, in bytes.
type footprint struct {
	all    float64
	stacks float64 // memory of the goroutines' stacks; 0 if the program does not report it
}

// resident returns the server's memory. Programs of the suite also report how much memory their
// stacks use.
func (st *stage) resident(ctx context.Context) (footprint, error) {
	p, ok := st.server.(*peer.Process)
	if !ok {
		return footprint{}, errors.New("the server is no process whose memory can be looked at")
	}
	n, err := p.Proportional()
	if err != nil || !st.trade.Stacks {
		return footprint{all: float64(n)}, err
	}
	said := len(stacksSaid.FindAllString(p.Log(), -1))
	if err := p.Signal(syscall.SIGUSR1); err != nil {
		return footprint{}, fmt.Errorf("ask the server what its stacks take: %w", err)
	}
	for end := time.Now().Add(stacksTime); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(stacksPoll) {
		if all := stacksSaid.FindAllStringSubmatch(p.Log(), -1); len(all) > said {
			stacks, err := strconv.ParseFloat(all[len(all)-1][1], 64)
			return footprint{float64(n), stacks}, err
		}
	}
	return footprint{}, fmt.Errorf("the server did not say what its stacks take; it said: %s", p.Log())
}

// stacksSaid matches a line in the format tcpprog.StacksLine, and captures the number.
var stacksSaid = regexp.MustCompile(strings.Replace(regexp.QuoteMeta(tcpprog.StacksLine), "%d", "([0-9]+)", 1))

// files is an act: curl fetches a file several times on one connection, and discards it. In a
// warm-up it fetches and keeps the file once, and files compares it.
func files(ctx context.Context, st *stage, warmup bool) (tally, error) {
	name := fileName(st.sc.Size, "0")
	scheme, transfers, to := "http", st.sc.Transfers, os.DevNull
	version := "--http1.1"
	if st.sc.HTTP2 {
		version = "--http2"
	}
	args := []string{"--silent", "--show-error", "--fail", version, "--noproxy", "*", "--write-out", `%{stdout}%{size_download} %{time_total} %{http_version}\n`}
	if st.sc.TLS {
		scheme = "https"
		args = append(args, "--cacert", st.cert, "--tlsv1.3", "--tls13-ciphers", "TLS_AES_128_GCM_SHA256", "--curves", "X25519")
	}
	if warmup {
		transfers, to = 1, filepath.Join(st.local, "got")
		defer func() { _ = os.Remove(to) }() // if this fails, the stage removes it later
	}
	url := fmt.Sprintf("%s://%s/%s", scheme, st.server.Addr(), name)
	for range transfers {
		args = append(args, "--output", to, url)
	}
	cmd, err := st.tool(ctx, peer.Curl, args...)
	if err != nil {
		return tally{}, err
	}
	var out, said bounded
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, clientEnds
	u, err := peer.Metered(ctx, cmd)
	if err != nil {
		return tally{}, fmt.Errorf("curl: %w: %s", err, bytes.TrimSpace(said.b))
	}
	if warmup {
		return tally{}, same(to, filepath.Join(st.root, name))
	}
	seconds, err := transfersIn(out.b, transfers, st.sc.Size, httpVersion(st.sc.HTTP2))
	if err != nil {
		return tally{}, err
	}
	size := float64(transfers) * float64(st.sc.Size)
	return tally{seconds: seconds, bytes: size, warnings: st.pinning(), figures: map[record.Metric]float64{
		record.Transfers: float64(transfers), record.Failed: 0, record.SecondsPerFile: seconds / float64(transfers),
		record.ClientCPU: u.CPU.Seconds(), record.ClientCPUPerGB: u.CPU.Seconds() * 1e9 / size,
	}}, nil
}

// httpVersion returns HTTP version 2 or 1.1, in the format in which curl prints it.
func httpVersion(two bool) string {
	if two {
		return "2"
	}
	return "1.1"
}

// transfersIn returns the sum of the durations of curl's transfers in its output. It returns an
// error if a transfer is not complete, or does not use the given version of HTTP.
func transfersIn(out []byte, transfers int, size int64, version string) (seconds float64, err error) {
	n := 0
	for line := range strings.Lines(string(out)) {
		var got int64
		var took float64
		var spoke string
		if _, err := fmt.Sscan(line, &got, &took, &spoke); err != nil {
			return 0, fmt.Errorf("curl printed %q: %w", line, err)
		}
		if spoke != version {
			return 0, fmt.Errorf("curl and the server agreed on HTTP/%s, not HTTP/%s", spoke, version)
		}
		if got != size {
			return 0, fmt.Errorf("%d bytes have come, and the file has %d", got, size)
		}
		n++
		seconds += took
	}
	if n != transfers || seconds <= 0 {
		return 0, fmt.Errorf("curl reports %d transfers in %v s, and %d were to be made", n, seconds, transfers)
	}
	return seconds, nil
}
