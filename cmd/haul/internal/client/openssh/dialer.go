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
	connectTime  = 30 * time.Second // limit until the host key is checked; ConnectTimeout replaces it
	authTime     = 2 * time.Minute  // limit for the login; sshd has the same limit
	attemptPause = time.Second      // pause between two attempts to connect; see ConnectionAttempts
)

// A Dialer makes authenticated connections. The zero Dialer asks no questions. Its methods may be
// called concurrently. It keeps decrypted keys and passwords in memory, so that another connection
// to the same host by the same way needs no questions.
type Dialer struct {
	Prompter Prompter // asks the user; nil means [Batch], which asks no questions

	// Notify receives messages for the user, including messages of servers, which are safe to
	// print. Notify must not block, because the connection waits for it. If it is nil, the messages
	// are dropped.
	Notify func(text string)

	// Wrap, if set, wraps every connection that SSH runs over. Close of the returned connection
	// must close the wrapped one too. Wrap is called with a *net.TCPConn, except for connections by
	// a jump host or a ProxyCommand.
	Wrap func(net.Conn) net.Conn

	Stderr io.Writer // receives the standard error of ProxyCommands; nil means os.Stderr

	mu      sync.Mutex
	asking  chan struct{} // contains one value while a question is open; guarded by mu; see turn
	keys    sync.Map      // ssh.Signers that were decrypted with a passphrase, by the path of the key file
	secrets sync.Map      // passwords of successful logins, by Destination.way
}

// notify passes a message to Notify, if set.
func (d *Dialer) notify(text string) {
	if d.Notify != nil {
		d.Notify(text)
	}
}

// turn returns a channel that serializes questions to the user. Send a value to it before a
// question, and receive a value from it afterwards.
func (d *Dialer) turn() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asking == nil {
		d.asking = make(chan struct{}, 1)
	}
	return d.asking
}

// opened returns the key of a file if the key was decrypted for an earlier login, and nil
// otherwise.
func (d *Dialer) opened(file string) ssh.Signer {
	key, _ := d.keys.Load(file)
	signer, _ := key.(ssh.Signer)
	return signer
}

// secret returns the password of the last login to an account, or "" if there was no such login.
// `way` is the result of [Destination.way] for the account.
func (d *Dialer) secret(way string) string {
	password, _ := d.secrets.Load(way)
	text, _ := password.(string)
	return text
}
