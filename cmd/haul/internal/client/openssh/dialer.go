package openssh

import (
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// These constants limit the time that the network takes. Time that the user takes to answer does
// not count.
const (
	connectTime  = 30 * time.Second // until the host key is checked, unless ConnectTimeout is set
	authTime     = 2 * time.Minute  // to log in; sshd allows the same time
	attemptPause = time.Second      // between ConnectionAttempts
)

// A Dialer makes authenticated connections. The zero Dialer asks no questions. Its methods may be
// called concurrently. It remembers decrypted keys and the password of a login in memory, so it
// asks nothing for another connection to the same host by the same way.
type Dialer struct {
	Prompter Prompter // nil means Batch

	// Notify receives messages for the user, including messages of servers. They are safe to
	// print. Notify must not block, since the connection waits for it. nil discards the messages.
	Notify func(text string)

	// Wrap, if set, wraps every connection that SSH runs over. Close of the returned connection
	// must close the wrapped one. The wrapped connection is a *net.TCPConn unless a jump host or
	// a ProxyCommand is in between.
	Wrap func(net.Conn) net.Conn

	Stderr io.Writer // receives the standard error of ProxyCommands; nil means os.Stderr

	mu      sync.Mutex
	asking  chan struct{} // guarded by mu: holds one element while a question is open
	keys    sync.Map      // ssh.Signers decrypted with a passphrase, by file
	secrets sync.Map      // passwords, by Destination.way
}

// notify passes a message to Notify, if set.
func (d *Dialer) notify(text string) {
	if d.Notify != nil {
		d.Notify(text)
	}
}

// turn returns the channel that a caller sends to before a question, and receives from after it.
func (d *Dialer) turn() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asking == nil {
		d.asking = make(chan struct{}, 1)
	}
	return d.asking
}

// opened returns the decrypted key of a file, if it was decrypted with a passphrase before, or nil.
func (d *Dialer) opened(file string) ssh.Signer {
	key, _ := d.keys.Load(file)
	signer, _ := key.(ssh.Signer)
	return signer
}

// secret returns the password of the last login by the same way, or "".
func (d *Dialer) secret(way string) string {
	password, _ := d.secrets.Load(way)
	text, _ := password.(string)
	return text
}
