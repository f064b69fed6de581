// Package remote connects to the servers that locations name. It parses locations as people type
// them, connects, logs in, asks for passwords, and finds out which file a location means.
//
// [Parse] parses a location. [Servers] holds the connections of one command. [Server] is the
// interface of all protocols; its Capabilities method returns the capabilities that only some
// protocols have.
//
// A protocol consists of a constructor, such as SFTP's in sftp.go, and a case in [Servers.Connect].
package remote

import (
	"io"
	"os/user"
	"time"
)

// A Config says how to reach servers.
type Config struct {
	SSH  SSHConfig
	Web  WebConfig
	TFTP TFTPConfig

	Batch        bool   // do not ask the user any questions
	PasswordFile string // file with the password in its first line; "" means no file

	// Conns is the maximum number of connections to one server; 0 means the protocol's default.
	Conns int

	UserAgent string // name of this program for web servers (User-Agent)

	// Account is the user whose keys and passwords are used; nil means the user that runs this
	// program.
	Account *user.User

	// Patience sets how long servers may take. A field that is zero means its default.
	Patience Patience

	// Again, if set, is called each time before a request is sent again because the server was busy
	// or the connection was lost. It is called for requests over HTTP, and for requests to a bucket
	// of a [Mount]. Several goroutines call it, and wait for it to return.
	Again func(why error)

	// Redirects lists the servers, as HOST:PORT, to which the web server of a [Mount] may redirect.
	Redirects []string

	served bool // the Config is for a Mount: run no Match exec, and suggest no flags in errors

	// Stderr receives the standard error of programs that connections run over.
	Stderr io.Writer

	// Say prints messages of servers. Several goroutines call it. With Quiet, only warnings are
	// printed.
	Say   func(text string)
	Quiet bool

	// Asking, if set, is called before a question on the terminal. The function that it returns
	// is called after the answer. Nothing else may draw on the terminal between the two calls.
	Asking func() (done func())
}

// Patience says how long a server may take.
type Patience struct {
	Answer time.Duration // time to connect and log in, and to answer a request
	Stall  time.Duration // longest time between bytes that the server sends or receives
	Away   time.Duration // how long a server that has answered before may be unreachable; HTTP only
}

// An SSHConfig holds the flags that ssh and scp also have, in the same syntax.
type SSHConfig struct {
	Identities []string // files of private keys to log in with
	Jump       string   // [USER@]HOST[:PORT], or several, comma-separated
	Port       int      // port for locations that name none; 0 means the configured port
	ConfigFile string   // file to read in place of ~/.ssh/config and the system's; "" means these two
	Options    []string // settings of ssh_config, as KEY=VALUE

	// Command is a program with arguments, such as ssh, that connects to the server for SFTP. The
	// fields above are passed to it as flags. If Command is empty, this process implements SSH
	// itself.
	Command []string

	Requests     int // maximum number of requests in flight per connection; 0 means automatic
	RequestBytes int // maximum size of a request, in bytes; 0 means automatic
}

// A WebConfig says which web servers to trust.
type WebConfig struct {
	CACert      string // a file of certificates to trust instead of the system's
	Fingerprint string // SHA-256 of the server's certificate in hexadecimal; replaces all other checks
	Insecure    bool   // do not check certificates
}
