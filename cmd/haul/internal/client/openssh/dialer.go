package openssh

import (
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// How long the network may take. The time of questions to the user does not count.
const (
	connectTime  = 30 * time.Second // until the host key is checked, unless ConnectTimeout is set
	authTime     = 2 * time.Minute  // to log in; sshd gives as long
	attemptPause = time.Second      // between ConnectionAttempts
)

// A Dialer makes authenticated connections. The zero Dialer asks no questions. Its
// methods may run at once. It remembers opened keys and the password that a
// login took, in memory, so another connection to the same host by the same way
// asks nothing.
type Dialer struct {
	Prompter Prompter // nil is Batch

	// Notify gets what the user should see, and what servers have to say,
	// safe to print. It must not keep the connection waiting. nil discards it.
	Notify func(text string)

	// Wrap, if set, is put around every connection that SSH is to run over.
	// Close of what it returns closes what it got. That is a *net.TCPConn
	// unless a jump host or a ProxyCommand is in between.
	Wrap func(net.Conn) net.Conn

	Stderr io.Writer // of ProxyCommands; nil is os.Stderr

	mu      sync.Mutex
	asking  chan struct{} // mu: one place, whose holder may ask
	keys    sync.Map      // ssh.Signers that were opened with a passphrase, by file
	secrets sync.Map      // passwords, by Destination.way
}

// notify shows a text.
func (d *Dialer) notify(text string) {
	if d.Notify != nil {
		d.Notify(text)
	}
}

// turn returns what must be held to ask.
func (d *Dialer) turn() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asking == nil {
		d.asking = make(chan struct{}, 1)
	}
	return d.asking
}

// opened returns the key of a file that was opened with a passphrase, or nil.
func (d *Dialer) opened(file string) ssh.Signer {
	key, _ := d.keys.Load(file)
	signer, _ := key.(ssh.Signer)
	return signer
}

// secret returns the password that the last login took by the same way, or "".
func (d *Dialer) secret(way string) string {
	password, _ := d.secrets.Load(way)
	text, _ := password.(string)
	return text
}
