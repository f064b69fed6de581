package openssh

import (
	"fmt"
	"net"
	"os/user"
	"slices"
	"strconv"
	"time"
)

// A Policy says what to do if the host key of a server is not known.
type Policy int

// These are the values of StrictHostKeyChecking.
const (
	Ask       Policy = iota // the Prompter asks the user
	Strict                  // refuse a server whose key is not known
	AcceptNew               // accept and store the key, if no key of the host is known
	Accept                  // accept and store the key; accept a changed key too, but send no password
)

// A Destination describes a host, and how to log in to it. Every field but Host may be zero, which
// means a secure default. Settings of ssh_config(5) have the same meaning here, with paths and
// tokens expanded.
type Destination struct {
	Alias string // the host as the user typed it
	User  string
	Host  string // the host to connect to (HostName)
	Port  int    // 0 means 22

	Jump         *Destination // connect through this host; nil connects directly
	ProxyCommand string       // connect through this command; empty means no command

	HostKeyRules
	Ciphering
	LoginRules
	Network

	// Ignored lists settings that have an effect in ssh but not here, with their positions.
	Ignored []string
}

// HostKeyRules says how to decide whether a server's host key is trusted.
type HostKeyRules struct {
	Policy                Policy // what to do about unknown keys (StrictHostKeyChecking)
	HostKeyAlias          string
	UserKnownHostsFiles   []string // known_hosts files of the user; new keys are added to the first one
	GlobalKnownHostsFiles []string
	RevokedHostKeys       string // a file of revoked keys; "" means no file
	HashKnownHosts        bool
	TrustLoopback         bool     // accept any key of this machine (NoHostAuthenticationForLocalhost)
	HostKeyAlgorithms     []string // empty means the secure defaults
	FixedHostKeyOrder     bool     // offer HostKeyAlgorithms in this order, whatever keys known_hosts contains
	CASignatureAlgorithms []string // empty means the secure defaults
	RequiredRSASize       int      // minimum size of RSA keys, in bits; 0 means 2048
}

// Ciphering says how a connection is encrypted.
type Ciphering struct {
	KexAlgorithms []string // empty means the secure defaults
	Ciphers       []string // empty means the secure defaults
	MACs          []string // empty means the secure defaults
	RekeyLimit    uint64   // bytes between two key exchanges; 0 means the limit of the cipher
}

// LoginRules says how to log in.
type LoginRules struct {
	IdentityFiles           []string // files of private keys, or of public keys whose private keys an agent holds
	DefaultIdentities       bool     // IdentityFiles are the default names, which may be missing
	CertificateFiles        []string
	IdentitiesOnly          bool
	IdentityAgent           string   // path of a socket; empty means no agent
	PubkeyAlgorithms        []string // empty means the secure defaults
	AuthMethods             []string // login methods, in the order to try them; nil means all
	Password                string   // used once, in place of a prompt; "" means that the user is asked
	NumberOfPasswordPrompts int      // 0 means 3; a negative value means that the user is not asked
	BatchMode               bool     // ask no questions
	NoBanner                bool     // do not show servers' banners, as ssh does with a LogLevel below INFO
}

// Network says how to reach the host, and how long to wait for it.
type Network struct {
	AddressFamily       string        // "tcp4", "tcp6", or empty for any
	BindAddress         string        // local address; empty for any
	BindInterface       string        // bind to an address of this interface; empty for any
	ConnectTimeout      time.Duration // limit for connecting and for the key exchange; 0 means 30 s
	ConnectionAttempts  int           // maximum number of attempts to connect; 0 means 1
	NoTCPKeepAlive      bool
	ServerAliveInterval time.Duration // how long a server may be silent before it is checked; 0 means no checks
	ServerAliveCountMax int           // number of checks without an answer before the connection is cut; 0 means 3
}

// Overrides holds the settings of a command line. They take precedence over all files.
type Overrides struct {
	// File is read in place of the user's and the system's file, as with ssh -F. "none" means that
	// no file is read.
	File string

	Port       int      // as with ssh -p; a port in the target takes precedence
	Jump       string   // as with ssh -J
	Identities []string // as with ssh -i
	Options    []string // as with ssh -o: "Keyword=value" or "Keyword value"

	// NoExec makes Match exec return an error instead of running its command.
	NoExec bool

	// Account is the user whose files are read and who logs in; nil means the user that runs this
	// program. A server sets it if it will become another user.
	Account *user.User
}

// name returns the name under which known_hosts lists the host.
func (d *Destination) name() string {
	if d.HostKeyAlias != "" {
		return d.HostKeyAlias
	}
	return hostPort(d.Host, d.Port)
}

// knownHostsFiles returns all known_hosts files, the user's first.
func (d *Destination) knownHostsFiles() []string {
	return slices.Concat(d.UserKnownHostsFiles, d.GlobalKnownHostsFiles)
}

// way returns a string that identifies the account, and the machine that the account is on. It
// contains the jump hosts too, because the same address behind two different jump hosts may mean
// two machines.
func (d *Destination) way() string {
	way := fmt.Sprintf("%q %q %q %q %q", d.login(), d.HostKeyAlias, d.ProxyCommand, d.BindAddress, d.BindInterface)
	if d.Jump != nil {
		way += " from " + d.Jump.way()
	}
	return way
}

// Endpoint returns user@host[:port], followed by " by " and the endpoint of the jump host, if there
// is one.
func (d *Destination) Endpoint() string {
	if d.Jump != nil {
		return d.login() + " by " + d.Jump.Endpoint()
	}
	return d.login()
}

// login returns user@host for messages.
func (d *Destination) login() string {
	return Target{User: d.User, Host: d.Host, Port: d.Port}.String()
}

// address returns the host and port to connect to.
func (d *Destination) address() string {
	port := d.Port
	if port == 0 {
		port = defaultPort
	}
	return net.JoinHostPort(d.Host, strconv.Itoa(port))
}
