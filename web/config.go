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
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// The defaults of a Handler's fields that are zero.
const (
	DefaultRealm      = "haul"
	DefaultStall      = time.Minute
	DefaultMaxUnsized = 1 << 30
)

// Bounds of listings.
const (
	// MaxListing is how many entries a directory may have to be listed. A list
	// is sorted, so it is held in memory, at about 50 bytes an entry besides its
	// name.
	MaxListing = 1 << 18

	// maxListed is how many entries all lists together may have that are held
	// at a time.
	maxListed = 4 * MaxListing
)

// Access says what requests may do with the files.
type Access uint8

// The kinds of access.
const (
	AccessRead       Access = iota // GET and HEAD
	AccessCreate                   // and PUT of names that are free
	AccessOverwrite                // and PUT that replaces a file
	AccessFull                     // and DELETE
	AccessUploadOnly               // PUT of names that are free, and nothing else
)

// AccessOf returns the access of a user, as a server gives it that takes uploads.
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

// A Handler serves files over HTTP. Store or Account must be set; all else is
// ready for use as it is. Its fields must not change once it serves.
type Handler struct {
	// Store and Access are what everybody gets, unless Account is set.
	Store  store.Store
	Access Access

	// Account says what a request gets. ctx ends with the request. An error is
	// answered like one of a store, so that fs.ErrPermission is 403.
	Account func(ctx context.Context, v Visitor) (*Account, error)

	// Users, if set, are asked for name and password before anything is done.
	// Account must be set too, as it is what keeps users to their roots.
	// Passwords that were right are known again for five minutes without being
	// hashed; a change of the users holds for them at once.
	Users *users.Directory

	// Realm is what browsers show when they ask for the password, in ASCII
	// without quotes; "" means DefaultRealm.
	Realm string

	// PlainPasswords takes passwords over connections without TLS too, where
	// all who are on the way can read them. It is for servers behind a proxy
	// that does TLS.
	PlainPasswords bool

	Exempt []netip.Prefix // not refused for wrong passwords

	// Listing shows the entries of directories, if the store can list them: as
	// HTML, or as JSON to a client that prefers that by Accept or asks with "?json".
	Listing bool

	// Index is the file that is served for a directory, such as "index.html"; ""
	// means none. With Listing, JSON still is a listing, and so is the query
	// "list".
	Index string

	// Precompressed has name.br, name.zst or name.gz sent for name, to clients
	// that prefer that coding, if the store is a [store.Tree]: in others, files
	// beside a name need not be beside its file. Anyone who may write there, be it
	// new files only, can then change what name yields.
	Precompressed bool

	Types map[string]string // media types by extension, such as ".efi", in lower case; before those that the package knows

	MaxUpload int64         // bytes of one upload; 0 means any that says its size, and DefaultMaxUnsized of others
	Rate      int64         // bytes a second each way, of all requests together; 0 means no limit
	Stall     time.Duration // ends a request whose peer takes or sends nothing for so long; 0 means DefaultStall
	MaxOpen   int           // requests that have files open at a time, seven eighths of them of one source; others get 503. 0 means DefaultMaxOpen

	// RatePerSource limits the bytes a second each way of one source, an address or an
	// IPv6 network of 64 bits, for requests without a login and without a Rate of their
	// Account; 0 means no limit.
	RatePerSource int64

	// These hooks, if they are set, run on the goroutine of the request: what takes
	// longer than a moment belongs on another. All calls about one request get the
	// same *Exchange.
	Started func(*Exchange)   // a file is going to be sent, or taken
	Ended   func(*Exchange)   // a request is over, whatever it was
	Audit   func(users.Event) // a password was checked

	once      sync.Once
	everybody Account
	rate      rate.Pair
	payers    rate.Accounts[payer]
	logins    passwords.Checker
	listed    listedEntries
	open      openings
	counts    counts
}

// A payer is an account whose requests share a rate: a user's, or that of a source.
type payer struct {
	user string
	from netip.Addr
}

// A Visitor is who a request comes from.
type Visitor struct {
	Peer  netip.Addr   // not valid if unknown
	Local net.Addr     // the address that was asked; nil if unknown
	Login *users.Login // the login that was proven; nil where none is needed
}

// An Account is what a request gets.
type Account struct {
	// User names the account: its requests share the Rate, and resume each other's
	// uploads. If it is empty, the account belongs to no user in particular.
	User   string
	Store  store.Store
	Access Access
	Rate   int64  // bytes a second each way; 0 means no limit
	Close  func() // called when the request is over, if set

	// Life ends the request when it ends, if set, and its cause is why. The connection
	// is cut, and an upload is treated as any that is cut off.
	Life context.Context
}

func (h *Handler) stall() time.Duration { return cmp.Or(h.Stall, DefaultStall) }

// counts are the Counters.
type counts struct {
	active, requests, refused, failed, logins, failures, sent, received atomic.Int64
}

// listedEntries are those in memory.
type listedEntries struct{ n atomic.Int64 }

// An Exchange describes one request to the hooks of a [Handler]. The fields below
// Value are set at the end; Status, Size and Range when a file is going to be sent.
type Exchange struct {
	Peer   netip.AddrPort // not valid if unknown
	Local  net.Addr       // nil if unknown
	Began  time.Time
	Proto  string // such as "HTTP/1.1"
	TLS    bool
	Method string
	Name   string // clean, beginning with a slash; of a target that is no name, its beginning as it came
	Path   string // of the file on the disk, once it is open; "" where that is not known
	User   string // who has logged in
	Agent  string // what the client calls itself, or the beginning of that: anything

	Value any // for the function that set Started

	Status   int
	Range    string // what was asked for with a Range or a Content-Range: the beginning
	Coding   string // the content coding of a precompressed variant, such as "gzip"
	Size     int64  // bytes of the file, or of the whole upload; -1 if there is none, or it is not known
	Err      error  // why it failed, or the file was not sent or taken whole
	Duration time.Duration

	// Published is the file of an upload; nil if it got no name, or the store does not know:
	// see [store.Create].
	Published *store.Published

	sent, received atomic.Int64
}

// Sent returns how many bytes of the file, or of a listing, were sent so far.
func (e *Exchange) Sent() int64 { return e.sent.Load() }

// Received returns how many bytes of an upload have come so far.
func (e *Exchange) Received() int64 { return e.received.Load() }

// Counters is what a handler has done and is doing.
type Counters struct {
	Active   int64 // requests now
	Requests int64 // that have ended
	Refused  int64 // those that were answered by 4xx
	Failed   int64 // by 5xx, or not to the end, but for those that were given up before there was an answer
	Logins   int64 // passwords that were right; those known again do not count
	Failures int64 // passwords that were wrong
	Sent     int64 // bytes of files and listings
	Received int64 // bytes of uploads
}
