package openssh

import (
	"net"
	"os"
	"os/exec"

	"github.com/haul-project/haul/cmd/haul/internal/system/subprocess"
)

// A proxyConn is a running ProxyCommand. It is a connection over the standard input and output of
// the command.
type proxyConn struct{ *subprocess.Process }

// startProxy starts a ProxyCommand. The shell replaces itself by the command (exec), so that
// signals reach the command and not only the shell.
func (d *Dialer) startProxy(command string) (*proxyConn, error) {
	shell, err := thisSystem(nil).shell()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(shell, "-c", "exec "+command)
	if cmd.Stderr = d.Stderr; d.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	p, err := subprocess.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &proxyConn{p}, nil
}

// status describes how the command has exited. It returns "" if the command did not exit by itself.
func (p *proxyConn) status() string {
	if p == nil {
		return ""
	}
	switch how, ok := p.Status(); {
	case !ok:
		return ""
	case how == nil:
		return "ProxyCommand ended"
	default:
		return "ProxyCommand: " + how.Error()
	}
}

// A proxyAddr is the address of a ProxyCommand's connection, whose real address is unknown.
type proxyAddr struct{}

func (proxyAddr) Network() string { return "pipe" }
func (proxyAddr) String() string  { return "ProxyCommand" }

func (p *proxyConn) LocalAddr() net.Addr  { return proxyAddr{} }
func (p *proxyConn) RemoteAddr() net.Addr { return proxyAddr{} }
