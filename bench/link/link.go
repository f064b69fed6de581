// Package link emulates a network link between two network namespaces of one
// machine: delay, rate with a bounded queue, loss, duplication and reordering,
// each way. It needs Linux, root, the tun module and iproute2, and no netem.
//
// The first call in a program's main, and in TestMain, must be [Main], because
// the program is started again to be the emulator, a process of its own:
//
//	func main() {
//		link.Main()
//		...
//		p, err := link.Lookup("lan1g")
//		...
//		l, err := link.Up(ctx, p)
//		...
//		defer l.Close()
//		server := l.Command(ctx, link.A, "haul", "serve", dir)
//		client := l.Command(ctx, link.B, "haul", "get", "tftp://"+l.Addr(link.A).String()+"/file")
//
// Each namespace has a TUN device. Packets cross as the kernel hands them over,
// up to 64 KiB in one system call each way, but what happens to them happens
// to each packet that would be on the wire. On links of a short round trip, what
// the way through the emulator itself costs is measured first, and taken off
// the delay.
//
// Devices here do not push back as a network card does: a program that sends
// without pause fills the queue of the link, as if a router were in between.
// The kernel's work for a packet that is handed over is done in the emulator's
// time, up to the receiving socket, and so counts as the emulator's.
package link

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"time"
)

// A Link is two namespaces and what carries packets between them. Its methods
// may be called from several goroutines.
type Link struct {
	profile Profile
	names   [2]string
	lead    time.Duration
	stop    func() bool // of the watch over the context
	closing sync.Once
	closed  error
	carrier *carrier // nil for netem
}

// Up makes a link. It is closed when ctx ends, if not earlier, and removed even
// if this process is killed: by the emulator, or at the latest by the next Up.
func Up(ctx context.Context, p Profile) (*Link, error) {
	l, err := prepare(p)
	if err != nil {
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		l.remove()
		return nil, errors.Join(fmt.Errorf("bring up link %s: %w", p.Name, err), l.closed)
	}
	l.stop = context.AfterFunc(ctx, l.remove)
	return l, nil
}

// prepare makes the namespaces.
func prepare(p Profile) (*Link, error) {
	if !mainCalled {
		return nil, errors.New("bring up a link: link.Main must be the first call in main")
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	if os.Getuid() != 0 {
		return nil, errors.New("bring up a link: network namespaces need root")
	}
	if err := Clean(); err != nil {
		return nil, err
	}
	names, err := newNames()
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if err := ip("netns", "add", name); err != nil {
			return nil, removeAll(names[:i], err)
		}
	}
	return &Link{profile: p, names: names}, nil
}

func (l *Link) start(ctx context.Context) (err error) {
	if l.carrier, err = startCarrier(&l.profile, l.names); err != nil {
		return err
	}
	for side, name := range l.names {
		if err := configure(name, Side(side)); err != nil {
			return err
		}
	}
	if err := l.calibrate(ctx); err != nil {
		return err
	}
	_, err = l.carrier.ask(begin)
	return err
}

// Profile returns what the link does.
func (l *Link) Profile() Profile { return l.profile }

// Lead is what the way through the emulator was found to cost each way, and is
// taken off the profile's delay. It is 0 where that is too little to matter.
func (l *Link) Lead() time.Duration { return l.lead }

// Addr returns the IPv4 address of an end.
func (l *Link) Addr(side Side) netip.Addr { return address(prefix4, side) }

// Addr6 returns the IPv6 address of an end.
func (l *Link) Addr6(side Side) netip.Addr { return address(prefix6, side) }

func address(prefix string, side Side) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("%s%d", prefix, side+1))
}

// Namespace returns the name under which ip(8) knows the namespace of an end.
func (l *Link) Namespace(side Side) string { return l.names[side] }

// Command returns a command that runs in the namespace of an end, and is
// otherwise as one of [exec.CommandContext]; the process that is started becomes
// the program, so that its number is the program's. HAUL_LINK_LOCAL and
// HAUL_LINK_PEER in its environment are the ends' IPv4 addresses. It is
// killed when this process ends.
func (l *Link) Command(ctx context.Context, side Side, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, self)
	path, err := exec.LookPath(name)
	if err != nil {
		cmd.Err = fmt.Errorf("run %s on side %s: %w", name, side, err)
	}
	cmd.Args = l.enterAs(side, absolute(path), name, args...)
	cmd.SysProcAttr = died()
	return cmd
}

// enterAs returns the arguments with which this program becomes another in the
// namespace of an end.
func (l *Link) enterAs(side Side, path, name string, args ...string) []string {
	fixed := []string{asGuest, l.names[side], path, l.Addr(side).String(), l.Addr(side.Other()).String(), name}
	return append(fixed, args...)
}

// Stats returns what the link has done so far. It fails if the emulator has
// ended, and for links of netem, which keeps its own.
func (l *Link) Stats() (Stats, error) {
	if l.carrier == nil {
		return Stats{}, errors.New("link statistics: netem carries this link, and tc(8) has its statistics")
	}
	var s Stats
	answer, err := l.carrier.ask(askStats)
	if err != nil {
		return s, fmt.Errorf("link statistics: %w", err)
	}
	if err := json.Unmarshal(answer, &s); err != nil {
		return s, fmt.Errorf("link statistics: %w", err)
	}
	return s, nil
}

// Close ends the programs in the namespaces and removes all that the link made.
// Later calls return what the first did.
func (l *Link) Close() error {
	l.stop()
	l.remove()
	return l.closed
}

func (l *Link) remove() {
	l.closing.Do(func() {
		// Namespaces first: where they end, so do their devices and programs,
		// and the emulator has nothing left to remove.
		l.closed = removeAll(l.names[:], nil)
		if l.carrier != nil {
			l.closed = errors.Join(l.closed, l.carrier.end())
		}
	})
}

// A carrier is the emulator, seen from its owner.
type carrier struct {
	cmd      *exec.Cmd
	commands io.WriteCloser
	out      io.Closer
	answers  *bufio.Reader // of out
	asking   sync.Mutex
	exited   chan struct{} // closed when the process has ended
}

const (
	startTimeout  = 10 * time.Second
	answerTimeout = 5 * time.Second
	endTimeout    = 5 * time.Second
)

// startCarrier starts the emulator and waits until its devices are there.
func startCarrier(p *Profile, names [2]string) (*carrier, error) {
	profile, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Args = []string{asEmulator, string(profile), names[A], names[B]}
	// Preempting by signals would interrupt the one system call that waits.
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	// The emulator ends with its owner because its standard input does, and so
	// has the time to remove what is left.
	commands, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the emulator: %w", err)
	}
	c := &carrier{cmd: cmd, commands: commands, out: out, answers: bufio.NewReader(out), exited: make(chan struct{})}
	go func() {
		_, _ = cmd.Process.Wait()
		close(c.exited)
	}()
	if _, err := c.answer(startTimeout); err != nil {
		return nil, errors.Join(fmt.Errorf("start the emulator: %w", err), c.end())
	}
	return c, nil
}

// ask sends a command and returns the answer.
func (c *carrier) ask(command string) ([]byte, error) {
	c.asking.Lock()
	defer c.asking.Unlock()
	if _, err := io.WriteString(c.commands, command+"\n"); err != nil {
		return nil, fmt.Errorf("the emulator has ended: %w", err)
	}
	return c.answer(answerTimeout)
}

// answer reads a line. An emulator that does not answer in time is killed, so
// that nobody waits for it again.
func (c *carrier) answer(within time.Duration) ([]byte, error) {
	late := time.AfterFunc(within, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	line, err := c.answers.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the emulator has ended, or did not answer within %s: %w", within, err)
	}
	return line, nil
}

// end asks the emulator to end, and kills it if it does not.
func (c *carrier) end() error {
	_ = c.commands.Close() // fails only if it has ended
	defer c.out.Close()
	select {
	case <-c.exited:
		return nil
	case <-time.After(endTimeout):
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill the emulator: %w", err)
	}
	<-c.exited
	return nil
}
