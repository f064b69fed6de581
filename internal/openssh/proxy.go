package openssh

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// proxyTime is how long a ProxyCommand may take to end when its connection is
// closed, before it is killed.
const proxyTime = 2 * time.Second

// A proxyConn is the standard input and output of a command.
type proxyConn struct {
	in  *os.File // its output
	out *os.File // its input
	cmd *exec.Cmd

	done  chan struct{} // closed when it has ended
	err   error         // how, once done is closed
	once  sync.Once
	ended atomic.Bool // by us
}

// startProxy starts a command of the configuration. The shell makes way for
// it, so that ending it ends no mere shell.
func (d *Dialer) startProxy(command string) (*proxyConn, error) {
	shell, err := thisSystem(nil).shell()
	if err != nil {
		return nil, err
	}
	theirIn, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), out.Close())
	}
	p := &proxyConn{in: in, out: out, done: make(chan struct{})}
	p.cmd = exec.Command(shell, "-c", "exec "+command)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirIn, theirOut, d.Stderr
	if d.Stderr == nil {
		p.cmd.Stderr = os.Stderr
	}
	p.cmd.WaitDelay = proxyTime // for what it left behind with our stderr
	err = p.cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *proxyConn) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	if errors.Is(err, io.EOF) {
		p.await()
	}
	return n, err
}

func (p *proxyConn) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		p.await()
	}
	return n, err
}

// await gives a command that closed its end of a pipe a moment to end: how it
// does so is worth knowing.
func (p *proxyConn) await() {
	select {
	case <-p.done:
	case <-time.After(proxyTime / 8):
	}
}

// Close ends the command as ssh does, by hanging up, and kills it if it stays.
func (p *proxyConn) Close() error {
	p.once.Do(func() {
		_, _ = p.in.Close(), p.out.Close()
		if p.end(syscall.SIGHUP) {
			return
		}
		select {
		case <-p.done:
		case <-time.After(proxyTime):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	})
	return nil
}

// end sends a signal to the command, unless it has ended by itself.
func (p *proxyConn) end(sig os.Signal) (ended bool) {
	select {
	case <-p.done:
		return true
	default:
	}
	p.ended.Store(true)
	if p.cmd.Process.Signal(sig) != nil {
		_ = p.cmd.Process.Kill() // where there are no signals
	}
	return false
}

// cut ends the command at once.
func (p *proxyConn) cut() {
	p.end(os.Kill)
	_, _ = p.in.Close(), p.out.Close()
}

// status says how the command ended, if it did so by itself.
func (p *proxyConn) status() string {
	if p == nil || p.ended.Load() {
		return ""
	}
	select {
	case <-p.done:
	default:
		return ""
	}
	if p.err == nil {
		return "ProxyCommand ended"
	}
	return "ProxyCommand: " + p.err.Error()
}

func (p *proxyConn) SetDeadline(t time.Time) error {
	return errors.Join(p.in.SetDeadline(t), p.out.SetDeadline(t))
}
func (p *proxyConn) SetReadDeadline(t time.Time) error  { return p.in.SetReadDeadline(t) }
func (p *proxyConn) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }

// A proxyAddr stands for an address that is not known.
type proxyAddr struct{}

func (proxyAddr) Network() string { return "pipe" }
func (proxyAddr) String() string  { return "ProxyCommand" }

func (p *proxyConn) LocalAddr() net.Addr  { return proxyAddr{} }
func (p *proxyConn) RemoteAddr() net.Addr { return proxyAddr{} }
