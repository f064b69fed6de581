package peer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	readyTime = 10 * time.Second      // how long a server may take to answer after its start
	readyPoll = 10 * time.Millisecond // interval between two checks whether the server answers
	stopTime  = 2 * time.Second       // how long a server may take to exit after it was asked to
	killTries = 100                   // number of attempts to kill the last processes of a server, and to wait for them
	killPoll  = 20 * time.Millisecond

	sampleEvery = 50 * time.Millisecond // shortest interval between two samples of memory
	// sampleShare bounds the cost of sampling: the pause after a sample is at least sampleShare
	// times as long as the sample took. Reading the memory of a thousand processes takes a while.
	sampleShare = 20
)

// A Process is a running server. Its methods may be called from several goroutines.
type Process struct {
	server *Server
	cmd    *exec.Cmd
	addr   netip.AddrPort
	group  group
	log    tail
	peak   atomic.Int64 // peak of the resident memory so far, in bytes
	config string       // directory of the server's configuration, which Stop removes; may be empty

	ended    chan struct{} // closed when the started process has exited, after err was set
	err      error
	stop     sync.Once
	stopping chan struct{}
	sampler  sync.WaitGroup
}

// Start runs a server and returns once it answers, which may take up to 10 s. When ctx ends, the
// server is killed, but Stop must be called nevertheless.
//
// Start returns an error if the server needs root and this process is not root, and if the server
// exits at once or does not answer. The error contains the end of the server's output.
func (s *Server) Start(ctx context.Context, o Options) (*Process, error) {
	p, err := s.start(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	if err := p.await(ctx, o); err != nil {
		p.Stop()
		return nil, fmt.Errorf("start %s: %w; it said: %s", s.Name, err, p.Log())
	}
	return p, nil
}

func (s *Server) start(ctx context.Context, o Options) (*Process, error) {
	if s.needs == "root" && os.Getuid() != 0 {
		return nil, fmt.Errorf("%w: it runs as root only; run the measurement as root", fs.ErrPermission)
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", o.Dir, err)
	}
	o.Dir = dir
	addr, err := s.address(o)
	if err != nil {
		return nil, err
	}
	if s.makes != "" {
		if err := os.MkdirAll(s.makes, 0o755); err != nil {
			return nil, err
		}
	}
	raiseFiles()
	g, err := newGroup()
	if err != nil {
		return nil, err
	}
	scratch, err := s.configure(&o, addr)
	if err != nil {
		g.remove()
		return nil, err
	}
	cmd := command(ctx, o.Command, s.env, s.Path, s.args(o, addr)...)
	p := &Process{server: s, cmd: cmd, addr: addr, group: g, config: scratch, ended: make(chan struct{}), stopping: make(chan struct{})}
	p.prepare(o)
	joined := g.begin(cmd)
	err = cmd.Start()
	joinErr := joined()
	if err != nil {
		g.remove()
		p.removeConfig()
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	if joinErr != nil {
		p.Stop()
		return nil, joinErr
	}
	p.sampler.Go(p.sample)
	return p, nil
}

// configure writes the server's configuration file, if it needs one, and returns the directory that
// it makes for this file.
func (s *Server) configure(o *Options, addr netip.AddrPort) (dir string, err error) {
	if s.config == nil {
		return "", nil
	}
	if dir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", groupPrefix, os.Getpid())); err != nil {
		return "", fmt.Errorf("make a directory for its configuration: %w", err)
	}
	o.config = filepath.Join(dir, "config")
	if err := os.WriteFile(o.config, []byte(s.config(*o, addr)), 0o644); err != nil {
		return "", errors.Join(fmt.Errorf("write its configuration: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}

func (p *Process) removeConfig() {
	if p.config != "" {
		_ = os.RemoveAll(p.config) // an error only leaves a temporary file behind
	}
}

// prepare applies the settings that every server's command needs.
func (p *Process) prepare(o Options) {
	if p.server.inDir {
		p.cmd.Dir = o.Dir
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	// Children that outlive the server keep the pipe for its output open.
	p.cmd.WaitDelay = stopTime
	if p.cmd.SysProcAttr == nil {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// An interrupt at the terminal must reach only the suite, which then ends its servers.
	p.cmd.SysProcAttr.Setpgid = true
}

// raiseFiles lets servers open as many files as the hard limit allows, because some servers need a
// socket for each transfer. Child processes inherit a limit that is set by this call, unlike the
// limit that the Go runtime sets for itself.
var raiseFiles = sync.OnceFunc(func() {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil {
		l.Cur = l.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) // a soft limit may always be raised to the hard one
	}
})

// await returns nil once the server answers, or an error if it exits or does not answer within
// readyTime.
func (p *Process) await(ctx context.Context, o Options) error {
	deadline := time.Now().Add(readyTime)
	for time.Now().Before(deadline) {
		bound, err := listens(p.cmd.Process.Pid, p.server.tcp, p.addr)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// A server in another namespace may not be reachable from here. It is enough that its
		// socket is bound, because the socket keeps a request or a connection until the server
		// processes it.
		if bound && (p.server.tcp || o.Command != nil || answers(p.addr)) {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("it ended at once: %v", p.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(readyPoll):
		}
	}
	return fmt.Errorf("no answer from %v within %v", p.addr, readyTime)
}

// Addr returns the address at which the server receives requests.
func (p *Process) Addr() netip.AddrPort { return p.addr }

// CPU returns the user and system time that the server's processes have used so far, including
// processes that have exited. If Accounting returns "process table", the time of exited processes
// that their parent did not wait for is missing.
func (p *Process) CPU() (time.Duration, error) {
	d, err := p.group.cpu()
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of %s: %w", p.server.Name, err)
	}
	return d, nil
}

// Accounting returns the source of the CPU times: "cgroup v2", "cgroup v1", or "process table" if
// this process may not make control groups.
func (p *Process) Accounting() string { return p.group.name() }

// Memory returns the peak of the total resident memory of the server's processes, in bytes. Samples
// are taken every 50 ms, or less often with thousands of processes. Memory that several processes
// share counts once for each of them.
func (p *Process) Memory() int64 { return max(p.peak.Load(), p.resident()) }

func (p *Process) resident() int64 { return residentOf(p.group) }

// Proportional returns how much memory the server's processes use now, in bytes. Of memory that
// they share with other processes, only their share counts (PSS).
func (p *Process) Proportional() (int64, error) {
	sum := int64(0)
	for _, pid := range p.group.pids() {
		n, err := proportional(pid)
		if err != nil {
			return 0, fmt.Errorf("read the memory of %s: %w", p.server.Name, err)
		}
		sum += n
	}
	return sum, nil
}

// Signal sends a signal to the server's first process.
func (p *Process) Signal(s syscall.Signal) error { return syscall.Kill(p.PID(), s) }

// PID returns the ID of the server's first process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

func (p *Process) sample() {
	for {
		begun := time.Now()
		p.peak.Store(max(p.peak.Load(), p.resident()))
		select {
		case <-time.After(max(sampleEvery, sampleShare*time.Since(begun))):
		case <-p.stopping:
			return
		case <-p.ended:
			return
		}
	}
}

// Log returns the end of the server's output, up to some kilobytes.
func (p *Process) Log() string { return p.log.String() }

// Running returns nil as long as the server runs. Afterwards it returns an error that says how the
// server ended, and contains the end of its output.
func (p *Process) Running() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s ended: %v; it said: %s", p.server.Name, p.err, p.Log())
	default:
		return nil
	}
}

// Stop ends all of the server's processes: it asks them to exit, and then kills the processes that
// are left. CPU and Memory cannot be called after Stop. Further calls of Stop do nothing.
func (p *Process) Stop() {
	p.stop.Do(func() {
		close(p.stopping)
		p.sampler.Wait()
		p.signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(stopTime):
		}
		for range killTries {
			if !p.signal(syscall.SIGKILL) {
				break
			}
			time.Sleep(killPoll)
		}
		<-p.ended
		p.group.remove()
		p.removeConfig()
	})
}

// signal sends a signal to all of the server's processes, and reports whether there are any.
func (p *Process) signal(s syscall.Signal) bool {
	pids := p.group.pids()
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // an error means that the process has just ended
	}
	return len(pids) > 0
}
