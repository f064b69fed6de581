package openssh

import (
	"fmt"
	"net"
	"os/user"
	"slices"
	"strconv"
	"time"
)

// A Policy says how to treat host keys that are not known.
type Policy int

// The values of StrictHostKeyChecking.
const (
	Ask       Policy = iota // the Prompter decides
	Strict                  // unknown keys are refused
	AcceptNew               // the key is kept if the host has no known key
	Accept                  // the key is kept, and a mismatch does not stop the connection
)

// A Destination describes a host and how to log in to it. The zero value of every field but Host is
// usable and strict. Settings of ssh_config(5) have the same meaning here, with paths and tokens
// expanded.
type Destination struct {
	Alias string // as the user typed it
	User  string
	Host  string // HostName: the host to connect to
	Port  int    // 0 means 22

	Jump         *Destination // connect through this host; nil connects directly
	ProxyCommand string       // connect through this command; empty means none

	HostKeyRules
	Ciphering
	LoginRules
	Network

	// Ignored lists settings that have an effect in ssh but not here, with their positions.
	Ignored []string
}

// HostKeyRules say how to decide whether a host is the right one.
type HostKeyRules struct {
	Policy                Policy // StrictHostKeyChecking
	HostKeyAlias          string
	UserKnownHostsFiles   []string // new keys are added to the first file
	GlobalKnownHostsFiles []string
	RevokedHostKeys       string // a file of keys; empty for none
	HashKnownHosts        bool
	TrustLoopback         bool     // NoHostAuthenticationForLocalhost
	HostKeyAlgorithms     []string // empty means the secure defaults
	FixedHostKeyOrder     bool     // the keys in known_hosts must not change their order
	CASignatureAlgorithms []string // empty means the secure defaults
	RequiredRSASize       int      // bits; 0 means 2048
}

// Ciphering says how a connection is encrypted.
type Ciphering struct {
	KexAlgorithms []string // empty means the secure defaults
	Ciphers       []string // empty means the secure defaults
	MACs          []string // empty means the secure defaults
	RekeyLimit    uint64   // bytes; 0 means the limit of the cipher
}

// LoginRules say how to log in.
type LoginRules struct {
	IdentityFiles           []string // private keys, or public keys whose private part an agent holds
	DefaultIdentities       bool     // IdentityFiles are the default names, which may be missing
	CertificateFiles        []string
	IdentitiesOnly          bool
	IdentityAgent           string   // path of a socket; empty means no agent
	PubkeyAlgorithms        []string // empty means the secure defaults
	AuthMethods             []string // in order; nil means all
	Password                string   // used once, in place of a prompt; empty to ask
	NumberOfPasswordPrompts int      // 0 means 3; a negative value means that there are no prompts
	BatchMode               bool     // ask no questions
	NoBanner                bool     // LogLevel is below INFO, at which ssh hides servers' banners
}

// Network says how to reach the host, and how long to wait for it.
type Network struct {
	AddressFamily       string        // "tcp4", "tcp6", or empty for any
	BindAddress         string        // local address; empty for any
	BindInterface       string        // bind to an address of this interface; empty for any
	ConnectTimeout      time.Duration // for connection and key exchange; 0 means 30 s
	ConnectionAttempts  int           // 0 means 1
	NoTCPKeepAlive      bool
	ServerAliveInterval time.Duration // 0 means that the server is not checked
	ServerAliveCountMax int           // 0 means 3
}

// Overrides holds the settings of a command line. They take precedence over all files.
type Overrides struct {
	// File is read instead of the user's and the system's file, as with ssh -F. "none" reads no
	// file.
	File string

	Port       int      // as ssh -p; the target's port takes precedence
	Jump       string   // as ssh -J
	Identities []string // as ssh -i
	Options    []string // as ssh -o: "Keyword=value" or "Keyword value"

	// NoExec makes Match exec return an error instead of running its command.
	NoExec bool

	// Account is the user whose files are read and who logs in; nil means the user that runs this
	// program. A server that will become another user sets it.
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

// way returns a string that identifies the account, and everything that decides which machine the
// account is on. The same address behind two different jump hosts may mean two machines.
func (d *Destination) way() string {
	way := fmt.Sprintf("%q %q %q %q %q", d.login(), d.HostKeyAlias, d.ProxyCommand, d.BindAddress, d.BindInterface)
	if d.Jump != nil {
		way += " from " + d.Jump.way()
	}
	return way
}

// Endpoint returns user@host[:port], followed by the endpoint of each jump host on the way.
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
