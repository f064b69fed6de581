package web

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/passwords"
	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// The defaults for fields of a Handler that are zero.
const (
	defaultRealm      = "haul"
	DefaultStall      = time.Minute
	defaultMaxUnsized = 1 << 30

	// DefaultMaxOpen is the default of Handler.MaxOpen. Besides descriptors it bounds memory, because
	// a request that hangs keeps a buffer of 64 to 256 KiB.
	DefaultMaxOpen = 8192
)

// openTimes and listedTimes are the [shares.Bound.Times] of Handler.MaxOpen and maxListed. A source
// that is alone may have seven eighths of the requests with open files, because all machines behind
// one NAT are one source, and half of the entries.
const (
	openTimes   = 7
	listedTimes = 1
)

// Bounds of listings, which are held in memory.
const (
	// maxListing is the largest number of entries of a directory that can be listed. A list is
	// sorted, so it is held in memory, at about 50 bytes per entry besides its name.
	maxListing = 1 << 18

	// maxListed bounds the entries of all lists that are in memory at a time. The only source can
	// have two lists of maxListing entries.
	maxListed = 4 * maxListing
)

// Access says what requests may do with the files.
type Access uint8

// The kinds of access. OPTIONS is allowed with each of them.
const (
	AccessRead       Access = iota // GET and HEAD
	AccessCreate                   // also PUT of new names
	AccessOverwrite                // also PUT that replaces a file
	AccessFull                     // also DELETE
	AccessUploadOnly               // PUT of new names, and nothing else
)

// AccessOf returns the access that a user has on a server that accepts uploads.
func AccessOf(a users.Access) Access {
	switch a {
	case users.Full:
		return AccessFull
	case users.UploadOnly:
		return AccessUploadOnly
	}
	return AccessRead
}

func (a Access) reads() bool    { return a != AccessUploadOnly }
func (a Access) writes() bool   { return a != AccessRead }
func (a Access) replaces() bool { return a == AccessOverwrite || a == AccessFull }
func (a Access) deletes() bool  { return a == AccessFull }

// A Handler serves files over HTTP. Store or Account must be set; the zero values of all other
// fields are usable. The fields must not change once it serves.
type Handler struct {
	// Store and Access apply to all requests, unless Account is set.
	Store  store.Store
	Access Access

	// Account returns the account of a request. ctx ends with the request. An error is answered
	// like an error of a store, so that fs.ErrPermission becomes 403.
	Account func(ctx context.Context, v Visitor) (*Account, error)

	// Users, if set, makes every request log in before anything else is done. Account must be set
	// too, as it confines users to their roots. A password that was right is accepted for five
	// minutes without being hashed again; a change of the users still applies to it at once.
	Users *users.Directory

	// Realm is the text that browsers show when they ask for the password, in ASCII without quotes;
	// "" means "haul".
	Realm string

	// PlainPasswords accepts passwords over connections without TLS too, where everybody on the
	// path can read them. It is for servers behind a proxy that does TLS.
	PlainPasswords bool

	Exempt []netip.Prefix // networks from which logins are never refused because of earlier wrong passwords

	// Listing shows the entries of directories, if the store can list them. The list is in HTML, or
	// in JSON if the client's Accept prefers that or the query has "json".
	Listing bool

	// Index is the name of the file that is served for a directory, such as "index.html"; "" means
	// that there is no index. With Listing, a client that asks for JSON, or has "list" in the
	// query, still gets the listing.
	Index string

	// Precompressed sends name.br, name.zst or name.gz instead of name to clients that prefer that
	// coding, if the store is a [store.Tree]: in other stores, a name with another extension may
	// lead to an unrelated file. Anyone who may write to the directory, even if only new files, can
	// then change the content that a name yields.
	Precompressed bool

	// Types maps extensions, such as ".efi", in lower case, to media types. They take precedence
	// over the built-in ones.
	Types map[string]string

	// MaxUpload is the maximum size of an upload, in bytes. 0 means no limit if the size is known
	// beforehand, and 1 GiB otherwise.
	MaxUpload int64
	Rate      int64 // bytes a second in each direction, for all requests together; 0 means no limit
	// Stall is how long a peer may neither receive nor send anything before its request ends; 0
	// means DefaultStall.
	Stall time.Duration
	// MaxOpen is how many requests may have files open at a time, at most seven eighths of them
	// from one source: a user who has logged in, an address or an IPv6 network of 64 bits. Further
	// requests get 503. 0 means DefaultMaxOpen.
	MaxOpen int

	// RatePerSource limits the bytes a second in each direction of one source, an address or an
	// IPv6 network of 64 bits. It applies to requests without a login whose Account has no Rate; 0
	// means no limit.
	RatePerSource int64

	// These hooks, if set, run on the goroutine of the request, so a slow hook should start another
	// goroutine. All calls about one request get the same *Exchange.
	Started func(*Exchange)   // a file is about to be sent or received
	Ended   func(*Exchange)   // a request of any kind is over
	Audit   func(users.Event) // a password was checked

	state handlerState
}

// A handlerState holds the state of a Handler while it serves.
type handlerState struct {
	once      sync.Once
	everybody Account
	rate      rate.Pair
	payers    rate.Accounts[payer]
	logins    passwords.Checker
	listed    shares.Table // entries of lists that are in memory
	open      shares.Table // requests that have files open, or are about to open them
	counts    counts
}

// A payer is the key of a rate that requests share: a user, or a source address.
type payer struct {
	user string
	from netip.Addr
}

// A Visitor describes the sender of a request.
type Visitor struct {
	Peer  netip.Addr   // the sender's address; not valid if unknown
	Local net.Addr     // the address that received the request; nil if unknown
	Login *users.Login // the verified login; nil if no login is needed
}

// An Account says which files a request may use, and with which rights.
type Account struct {
	// User names the account. Its requests share the Rate and can resume each other's uploads. If
	// it is empty, the account belongs to no particular user.
	User   string
	Store  store.Store
	Access Access
	Rate   int64  // bytes a second in each direction; 0 means no limit
	Close  func() // called when the request is over, if set

	// Life, if set, is a context. When it is cancelled, the request ends, and the context's cause is
	// the reason. The connection is cut, and an upload is treated like any upload that is cut off.
	Life context.Context
}

func (h *Handler) stall() time.Duration { return cmp.Or(h.Stall, DefaultStall) }

// counts holds the numbers that Handler.Counters returns.
type counts struct {
	active, requests, refused, failed, logins, failures, sent, received atomic.Int64
}

// An Exchange describes one request to the hooks of a [Handler]. The fields below Value are set
// when the request is over, except that Status, Size and Range are set before a file is sent.
type Exchange struct {
	Peer   netip.AddrPort // the sender's address and port; not valid if unknown
	Local  net.Addr       // the address that received the request; nil if unknown
	Began  time.Time
	Proto  string // such as "HTTP/1.1"
	TLS    bool
	Method string
	// Name is the cleaned path, beginning with a slash. If the target is not a valid name, it is
	// the beginning of the target as received.
	Name  string
	Path  string // the file's path on the disk, once it is open; "" if unknown
	User  string // the name of the user who has logged in; "" without a login
	Agent string // the beginning of the User-Agent; it may contain anything

	Value any // free for use by the hooks

	Status   int
	Range    string // the beginning of the request's Range or Content-Range
	Coding   string // the content coding of a precompressed variant, such as "gzip"
	Size     int64  // bytes of the file, or of the whole upload; -1 without a file, or if the size is unknown
	Err      error  // why the request failed, or why the file was not transferred whole
	Duration time.Duration

	// Published describes the file of an upload; nil if it was not published, or if the store does
	// not describe it: see [store.Create].
	Published *store.Published

	sent, received atomic.Int64
}

// Sent returns how many bytes of the file or listing have been sent so far.
func (e *Exchange) Sent() int64 { return e.sent.Load() }

// Received returns how many bytes of the upload have been received so far.
func (e *Exchange) Received() int64 { return e.received.Load() }

// Counters holds the figures of a handler. All of them except Active only grow.
type Counters struct {
	Active   int64 // requests under way
	Requests int64 // requests that have ended
	Refused  int64 // requests that were answered by 4xx
	// Failed is the number of requests answered by 5xx or cut off, except those that the client
	// gave up before there was an answer.
	Failed   int64
	Logins   int64 // right passwords, except remembered ones that were not hashed again
	Failures int64 // wrong passwords
	Sent     int64 // bytes of files and listings
	Received int64 // bytes of uploads
}
