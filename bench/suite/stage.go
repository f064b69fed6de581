package suite

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/haul-project/haul/bench/link"
	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

// settle is how long the kernel may take to add the CPU time of exiting children to their control
// group.
const settle = 100 * time.Millisecond

// A stage holds everything that exists while a scenario is measured: its files, its link if it has
// one, and the running servers.
type stage struct {
	suite *Suite
	sc    *Scenario
	root  string // path of the served directory
	link  *link.Link
	limit *throttle          // limits the server; nil means no limit
	kept  map[string]process // servers that keep running between rounds, by the name of the contender
	keys  *peer.Keys         // key files of an SFTP scenario
	local string             // directory for the files of SFTP and TCP clients; "" for other protocols

	// These fields are for TCP scenarios.
	space     *link.Space // network namespace of all programs; nil for other protocols
	cores     [2]int      // the core of each side
	cert, key string      // paths of the certificate and its key, for TLS

	started int // number of servers started so far

	// These fields are about the contender whose turn it is.
	server process
	stores bool         // the server keeps uploads as files
	client *peer.Client // the stock client; nil if haul is the client
	pair   *peer.Pair   // for SFTP: the client and the server
	trade  peer.Trade   // for TCP: which answers the server can send
	tune   func(*peer.SFTPJob)

	serverDelay bool   // for SFTP: the server does not set TCP_NODELAY
	seed        uint64 // seed of the losses: different in each round, the same for all contenders
}

// A tally holds the figures that the clients of an act measured.
type tally struct {
	seconds  float64
	bytes    float64 // total size of the complete files
	packets  float64 // number of DATA packets, without repeats
	requests float64 // number of answered TCP requests
	figures  map[record.Metric]float64
	series   []float64
	warnings []string
}

// A process is a running server; *peer.Process is one.
type process interface {
	Addr() netip.AddrPort
	CPU() (time.Duration, error) // user and system time of the server and all its children, including exited ones
	Memory() int64               // peak of the memory, in bytes
	Stop()
}

// prepare makes the files and the link of the scenario.
func (st *stage) prepare(ctx context.Context) error {
	st.kept = make(map[string]process)
	if err := os.Mkdir(st.root, 0o777); err != nil {
		return fmt.Errorf("make a directory to serve: %w", err)
	}
	// Servers without root write here. Mkdir applies the umask, but Chmod does not.
	if err := os.Chmod(st.root, 0o777); err != nil {
		return fmt.Errorf("make a directory to serve: %w", err)
	}
	switch st.sc.Protocol {
	case record.SFTP:
		return st.prepareSFTP(ctx)
	case record.TCP:
		return st.prepareTCP(ctx)
	}
	if err := st.makeFiles(ctx, st.sc.Load); err != nil {
		return err
	}
	if size := st.warmupSize(); size != st.sc.Size {
		if err := st.makeFiles(ctx, record.Load{Size: size, Transfers: 1, Write: st.sc.Write}); err != nil {
			return err
		}
	}
	var err error
	if st.sc.Beside == coldFiles {
		st.limit, err = throttleReads(st.root)
	}
	if err != nil {
		return err
	}
	return st.connect(ctx)
}

// connect makes the link, if the scenario has one.
func (st *stage) connect(ctx context.Context) error {
	if st.sc.Link == "" {
		return nil
	}
	p, err := link.Lookup(st.sc.Link)
	if err != nil {
		return err
	}
	st.link, err = link.Up(ctx, p)
	return err
}

// close stops everything that was started for the scenario, and removes its files.
func (st *stage) close() {
	for _, p := range st.kept {
		p.Stop()
	}
	if st.link != nil {
		if err := st.link.Close(); err != nil {
			st.suite.say("the link of %s is not quite removed: %v", st.sc.Name, err)
		}
	}
	if st.space != nil {
		if err := st.space.Close(); err != nil {
			st.suite.say("the network namespace of %s is not quite removed: %v", st.sc.Name, err)
		}
	}
	if st.limit != nil {
		if err := st.limit.close(); err != nil {
			st.suite.say("the control group of %s stays: %v", st.sc.Name, err)
		}
	}
	for _, dir := range []string{st.root, st.local} {
		if dir == "" {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			st.suite.say("the files of %s stay: %v", st.sc.Name, err)
		}
	}
}

// command returns a command on the clients' side.
func (st *stage) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return st.commandOn(ctx, link.B, name, args...)
}

// serverCommand returns a command on the server's side.
func (st *stage) serverCommand(ctx context.Context, name string, args ...string) *exec.Cmd {
	return st.commandOn(ctx, link.A, name, args...)
}

func (st *stage) commandOn(ctx context.Context, side link.Side, name string, args ...string) *exec.Cmd {
	switch {
	case st.space != nil:
		return apart(st.space.Command(ctx, st.cores[side], name, args...))
	case st.link != nil:
		return apart(st.link.Command(ctx, side, name, args...))
	}
	return apart(exec.CommandContext(ctx, name, args...))
}

// apart keeps the terminal's signals from a command. An interrupt must reach only the suite: a
// client that was interrupted would seem to have failed.
func apart(cmd *exec.Cmd) *exec.Cmd {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	return cmd
}

// measure makes one measurement of a contender, and completes its line.
func (st *stage) measure(ctx context.Context, c contender, l *record.Line) {
	limit := st.sc.Limit
	if limit == 0 {
		limit = limitDefault
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if st.sc.Seed > 0 {
		l.Scenario.Seed = st.sc.Seed + uint64(l.Round)
	}
	st.seed = l.Scenario.Seed
	if err := st.turn(ctx, c, l); err != nil {
		l.Error = err.Error()
		st.dismiss(c)
	}
	l.Time = now()
}

// dismiss stops a kept server after a failure. The server is started again for its next turn.
func (st *stage) dismiss(c contender) {
	if p, ok := st.kept[c.Name]; ok {
		p.Stop()
		delete(st.kept, c.Name)
	}
}

func (st *stage) turn(ctx context.Context, c contender, l *record.Line) error {
	if err := st.begin(ctx, c); err != nil {
		return err
	}
	defer st.end(c)
	if st.sc.Warmups > 0 {
		if _, err := st.perform(ctx, true); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	before, err := st.spent()
	if err != nil {
		return err
	}
	t, err := st.perform(ctx, false)
	if err != nil {
		return err
	}
	time.Sleep(settle)
	after, err := st.spent()
	if err != nil {
		return err
	}
	spent := after.minus(before)
	l.Figures = st.figures(t, spent, st.server.Memory())
	l.Series = t.series
	l.Warnings = append(t.warnings, st.doubts(spent)...)
	return nil
}

// begin starts the contender's server, unless it is already running.
func (st *stage) begin(ctx context.Context, c contender) error {
	st.client, st.stores, st.pair, st.trade, st.tune, st.serverDelay = c.client, c.stores, c.pair, c.trade, c.tune, c.serverDelay
	if p, ok := st.kept[c.Name]; ok {
		st.server = p
		return nil
	}
	p, err := c.start(st.startContext(ctx), st)
	st.started++
	if err != nil {
		return err
	}
	st.server = p
	if !st.sc.Fresh {
		st.kept[c.Name] = p
	}
	return nil
}

// startContext returns the context with which a server is started. It is not cancelled for a kept
// server, which outlives the measurement for which it was started.
func (st *stage) startContext(ctx context.Context) context.Context {
	if st.sc.Fresh {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// end stops the server, unless it is kept, and removes uploads, so that the next server finds no
// files to replace.
func (st *stage) end(c contender) {
	if st.sc.Fresh {
		st.server.Stop()
	}
	uploads, _ := filepath.Glob(filepath.Join(st.root, uploadPrefix+"*")) // fails only if the pattern is malformed
	for _, name := range uploads {
		if err := os.RemoveAll(name); err != nil {
			st.suite.say("an upload to %s stays: %v", c.Name, err)
		}
	}
}

func (st *stage) perform(ctx context.Context, warmup bool) (tally, error) {
	if st.sc.act != nil {
		return st.sc.act(ctx, st, warmup)
	}
	load := st.sc.Load
	load.Seed = st.seed
	if warmup {
		load.Transfers = st.sc.Warmups
		load.Concurrency = min(load.Concurrency, st.sc.Warmups)
		load.Size = st.warmupSize()
	}
	return st.generate(ctx, load)
}

// maxLinkWarmup is the size of the file for a warm-up over a link, in bytes: a larger file would
// have no further effect, and take as long as the measurement.
const maxLinkWarmup = 64 * kB

func (st *stage) warmupSize() int64 {
	if st.sc.Link == "" {
		return st.sc.Size
	}
	return min(st.sc.Size, maxLinkWarmup)
}

// An expense holds the CPU times of the server and of the link's emulator.
type expense struct {
	server, link time.Duration
	failures     uint64 // number of packets that the emulator lost although its profile does not ask for it
}

func (e expense) minus(o expense) expense {
	return expense{e.server - o.server, e.link - o.link, e.failures - o.failures}
}

func (st *stage) spent() (expense, error) {
	var e expense
	var err error
	if e.server, err = st.server.CPU(); err != nil {
		return e, fmt.Errorf("CPU time of the server: %w", err)
	}
	if st.link == nil {
		return e, nil
	}
	stats, err := st.link.Stats()
	if err != nil {
		return e, fmt.Errorf("CPU time of the link: %w", err)
	}
	e.link, e.failures = stats.CPU, stats.Failures()
	return e, nil
}

// figures returns the figures of a measurement, computed from the tally of the clients and the
// cost.
func (st *stage) figures(t tally, e expense, memory int64) map[record.Metric]float64 {
	f := map[record.Metric]float64{
		record.Seconds:   t.seconds,
		record.ServerCPU: e.server.Seconds(),
		record.Memory:    float64(memory) / 1e6,
	}
	maps.Copy(f, t.figures)
	if client, ok := t.figures[record.ClientCPU]; ok && t.seconds > 0 {
		f[record.CoresBusy] = (client + e.server.Seconds()) / t.seconds
	}
	if t.seconds > 0 {
		f[record.Rate] = t.bytes / 1e6 / t.seconds
	}
	st.perPacket(f, t, e)
	if st.link == nil || t.seconds == 0 {
		return f
	}
	f[record.LinkCPU] = e.link.Seconds() / t.seconds
	f[record.LinkDrops] = float64(e.failures)
	// The bound depends on the options, which other clients than haul may not request.
	if st.sc.Window > 0 && st.client == nil {
		p := st.link.Profile()
		f[record.Bound] = p.Bound(st.sc.BlockSize, st.sc.Window) / 1e6
		f[record.ShareOfBound] = f[record.Rate] / f[record.Bound]
	}
	return f
}

// perPacket adds the figures for each packet, request and byte. During a disturbance it leaves out
// the cost of packets and bytes, because the server's CPU time also covers the disturbance.
func (st *stage) perPacket(f map[record.Metric]float64, t tally, e expense) {
	if t.packets > 0 {
		f[record.DataPackets] = t.packets
		f[record.PacketRate] = t.packets / t.seconds
	}
	if t.requests > 0 {
		f[record.RequestRate] = t.requests / t.seconds
		f[record.CPUPerRequest] = e.server.Seconds() * 1e6 / t.requests
	}
	if st.sc.Beside != "" || t.bytes == 0 || e.server == 0 {
		return
	}
	f[record.CPUPerGB] = e.server.Seconds() * 1e9 / t.bytes
	f[record.GigabitsPerCore] = t.bytes * 8 / 1e9 / e.server.Seconds()
	if t.packets > 0 {
		f[record.CPUPerPacket] = e.server.Seconds() * 1e6 / t.packets
	}
}

// doubts returns warnings about the quality of the measurement, for readers of the report.
func (st *stage) doubts(e expense) []string {
	var all []string
	if p, ok := st.server.(*peer.Process); ok && p.Accounting() == "process table" {
		all = append(all, "no control group can be made without root: CPU time leaves out children that the server did not wait for")
	}
	if e.failures > 0 {
		all = append(all, fmt.Sprintf("the link's emulator lost %d packets against its profile: it was too slow", e.failures))
	}
	return all
}
