// Package link emulates a network link between two network namespaces of one machine: delay, rate
// with a bounded queue, loss, duplication and reordering, in each direction. It needs Linux,
// root, the tun module and iproute2, but not netem.
//
// The first call in a program's main, and in TestMain, must be [Main], because the emulator is a
// process of its own, for which the program is started again:
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
// Each namespace has a TUN device. Packets cross as the kernel hands them over, up to 64 KiB in
// one system call each way, but loss, delay and the rest apply to each packet that would be on
// the wire. On links with a short round trip, the cost of the path through the emulator is
// measured first, and subtracted from the delay.
//
// Unlike a network card, these devices do not push back: a program that sends without a pause
// fills the queue of the link, as if a router were in between. The kernel processes a packet that
// is handed over in the emulator's time, up to the receiving socket, so this counts as the
// emulator's CPU time.
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

// A Link consists of two namespaces and the emulator that carries packets between them. Its
// methods may be called from several goroutines.
type Link struct {
	profile Profile
	names   [2]string
	lead    time.Duration
	stop    func() bool // keeps the end of the context from closing the link
	closing sync.Once
	closed  error
	carrier *carrier // nil if the link uses netem
}

// Up makes a link, which is closed when ctx ends, if not earlier. Even if this process is killed,
// the link is removed: by the emulator, or at the latest by the next call of Up.
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

// prepare makes the namespaces of a link.
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

// Profile returns the link's profile.
func (l *Link) Profile() Profile { return l.profile }

// Lead returns the measured cost of the path through the emulator in one direction. This cost is
// subtracted from the profile's delay. It is 0 if it is too small to matter.
func (l *Link) Lead() time.Duration { return l.lead }

// Addr returns the IPv4 address of a side.
func (l *Link) Addr(side Side) netip.Addr { return address(prefix4, side) }

// Addr6 returns the IPv6 address of a side.
func (l *Link) Addr6(side Side) netip.Addr { return address(prefix6, side) }

func address(prefix string, side Side) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("%s%d", prefix, side+1))
}

// Namespace returns the name of a side's namespace for ip(8).
func (l *Link) Namespace(side Side) string { return l.names[side] }

// Command returns a command that runs in the namespace of a side, and is otherwise like that of
// [exec.CommandContext]. The started process becomes the program, so its process ID is the
// program's. HAUL_LINK_LOCAL and HAUL_LINK_PEER in its environment are the IPv4 addresses of both
// sides. It is killed when this process ends.
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

// enterAs returns the arguments with which this program becomes another program in the namespace of
// a side.
func (l *Link) enterAs(side Side, path, name string, args ...string) []string {
	fixed := []string{asGuest, l.names[side], path, l.Addr(side).String(), l.Addr(side.Other()).String(), name}
	return append(fixed, args...)
}

// Stats returns what the link has done so far. It returns an error if the emulator has exited, and
// for netem links, because netem keeps its own statistics.
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

// Close ends the programs in the namespaces, and removes everything that the link made. Later calls
// return the result of the first call.
func (l *Link) Close() error {
	l.stop()
	l.remove()
	return l.closed
}

func (l *Link) remove() {
	l.closing.Do(func() {
		// Remove the namespaces first. Their devices and programs disappear with them, so the
		// emulator has nothing left to remove.
		l.closed = removeAll(l.names[:], nil)
		if l.carrier != nil {
			l.closed = errors.Join(l.closed, l.carrier.end())
		}
	})
}

// A carrier is the owner's handle of the emulator's process.
type carrier struct {
	cmd      *exec.Cmd
	commands io.WriteCloser
	out      io.Closer
	answers  *bufio.Reader // reads from out
	asking   sync.Mutex
	exited   chan struct{} // closed when the process has exited
}

const (
	startTimeout  = 10 * time.Second
	answerTimeout = 5 * time.Second
	endTimeout    = 5 * time.Second
)

// startCarrier starts the emulator, and waits until it has made its devices.
func startCarrier(p *Profile, names [2]string) (*carrier, error) {
	profile, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Args = []string{asEmulator, string(profile), names[A], names[B]}
	// Preemption by signals would interrupt the one system call that waits.
	cmd.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1", "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	// The emulator exits when its standard input ends, which happens when its owner exits. So it
	// has time to clean up.
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

// answer reads a line from the emulator. If the emulator does not answer in time, answer kills it,
// so that no later call waits for it.
func (c *carrier) answer(within time.Duration) ([]byte, error) {
	late := time.AfterFunc(within, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	line, err := c.answers.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the emulator has ended, or did not answer within %s: %w", within, err)
	}
	return line, nil
}

// end asks the emulator to exit, and kills it if it does not exit in time.
func (c *carrier) end() error {
	_ = c.commands.Close() // fails only if the process has exited
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
