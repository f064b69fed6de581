// Package remote makes servers of locations: it reads a location as people type it,
// connects to its server, logs in, asks for passwords, and says which file is meant.
//
// [Parse] reads a location. [Servers] holds the connections of one command. A [Server] has
// files, and is the same for all protocols; what only some can do is an interface of its
// own, such as [Renamer].
//
// A protocol is a constructor, as that of SFTP in sftp.go, and a case in
// [Servers.Connect].
package remote

import (
	"io"
	"os/user"
	"time"
)

// A Config says how servers are reached.
type Config struct {
	SSH  SSHConfig
	Web  WebConfig
	TFTP TFTPConfig

	Batch        bool   // never ask for anything
	PasswordFile string // has the password in its first line; "" for none

	// Conns bounds the connections to one server; 0 means the protocol's usual.
	Conns int

	UserAgent string // for web servers

	// Account is the user whose keys and passwords are used; nil is the one that runs
	// this program.
	Account *user.User

	// Patience is how long servers may take; zero fields mean what is usual.
	Patience Patience

	// Again, if set, is called each time that a request over HTTP or to a bucket of a [Mount]
	// is going to be sent again, and why: the server had no time, or the connection was lost.
	// Several goroutines call it, and it holds them up.
	Again func(why error)

	served bool // for a [Mount]: there are no flags, and nobody to be asked

	// Stderr is for programs that connections run over.
	Stderr io.Writer

	// Say prints what servers have to say; several goroutines call it. With Quiet that is
	// warnings alone.
	Say   func(text string)
	Quiet bool

	// Asking, if set, is called before something is asked on the terminal, and what it
	// returns when that is over: so that nothing else is drawn there.
	Asking func() (done func())
}

// Patience is how long a server may take.
type Patience struct {
	Answer time.Duration // to answer a request; and to connect, with the login
	Stall  time.Duration // to send, or take, a further byte
	Away   time.Duration // to be back, if it has answered before; of HTTP
}

// An SSHConfig is what ssh and scp have flags for, spelled as theirs.
type SSHConfig struct {
	Identities []string // files of private keys
	Jump       string   // [USER@]HOST[:PORT], or several, separated by commas
	Port       int      // for locations that have none; 0 for the configuration's
	ConfigFile string   // instead of ~/.ssh/config
	Options    []string // of ssh_config, as KEY=VALUE

	// Command is a program with arguments over which SFTP runs, such as ssh; what is above
	// is passed on to it. Empty means that this process speaks SSH itself.
	Command []string

	Requests     int // in flight at most, over one connection; 0 means automatic
	RequestBytes int // of a request at most; 0 means automatic
}

// A WebConfig says which web servers are trusted.
type WebConfig struct {
	CACert      string // a file with certificates, instead of those of the system
	Fingerprint string // the SHA-256 of the server's certificate, in hexadecimal, instead of all other checks
	Insecure    bool   // do not check certificates
}
