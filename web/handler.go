package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

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
	MaxOpen   int           // requests that have files open at a time, half of them of one source; others get 503. 0 means DefaultMaxOpen

	// These hooks, if they are set, run on the goroutine of the request: what takes
	// longer than a moment belongs on another. All calls about one request get the
	// same *Exchange.
	Started func(*Exchange)   // a file is going to be sent, or taken
	Ended   func(*Exchange)   // a request is over, whatever it was
	Audit   func(users.Event) // a password was checked

	once      sync.Once
	everybody Account
	rate      rate.Pair
	users     rate.Accounts
	logins    logins
	listed    listedEntries
	open      openings
	counts    counts
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

var errNoAccount = errors.New("web: the handler lacks Store or Account; with Users it takes an Account")

func (h *Handler) init() {
	h.everybody = Account{Store: h.Store, Access: h.Access}
	h.rate.Set(h.Rate)
	h.logins.init(h)
}

func (h *Handler) stall() time.Duration {
	if h.Stall == 0 {
		return DefaultStall
	}
	return h.Stall
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.once.Do(h.init)
	x := h.begin(w, r)
	defer x.end()
	switch err := x.enter(); {
	case err == nil:
		x.serve()
	case err == errDoubleSlash && x.reads():
		x.redirectSlashes()
	default:
		x.fail(err)
	}
}

// enter finds out who asks for what, and what they get.
func (x *exchange) enter() error {
	name, dir, err := nameOf(x.r.URL)
	if err == nil {
		x.name, x.dir = name, dir
		x.Name = "/" + name
		if name == "." {
			x.Name = "/"
		}
	} else if x.r.URL.Path == "*" && x.r.Method == http.MethodOptions {
		err = nil // of the server as a whole: RFC 9110 §9.3.7
	}
	v := Visitor{Peer: x.Peer.Addr(), Local: x.Local}
	if x.h.Users != nil {
		l, loginErr := x.login()
		if loginErr != nil {
			return loginErr
		}
		v.Login, x.User = l, l.User.Name
	}
	if err != nil {
		return err
	}
	return x.account(v)
}

// account asks for what the request gets.
func (x *exchange) account(v Visitor) error {
	switch {
	case x.h.Account != nil:
		a, err := x.h.Account(x.r.Context(), v)
		if _, refused := errors.AsType[*users.Refusal](err); refused {
			return x.challenge(fmt.Errorf("%w: %w", errLogin, err)) // the users have changed since the login
		}
		if err != nil {
			return err
		}
		x.acct = a
		if a.Life != nil {
			x.endWith(a.Life)
		}
	case x.h.Store == nil, x.h.Users != nil:
		return errNoAccount
	default:
		x.acct = &x.h.everybody
	}
	if x.acct.Rate > 0 {
		x.throttle = x.h.users.Enter(x.acct.User, x.acct.Rate)
	}
	return nil
}

func (x *exchange) serve() {
	err := x.settle()
	if err == nil && x.r.Method != http.MethodOptions {
		err = x.open()
	}
	if err != nil {
		x.fail(err)
		return
	}
	switch a := x.acct.Access; x.r.Method {
	case http.MethodGet, http.MethodHead:
		if !a.reads() {
			x.fail(errUploadOnly)
			return
		}
		x.get()
	case http.MethodPut:
		if !a.writes() {
			x.notAllowed(errNoUploads)
			return
		}
		x.put()
	case http.MethodDelete:
		if !a.deletes() {
			x.notAllowed(errNoRemovals)
			return
		}
		x.remove()
	case http.MethodOptions:
		x.allow()
		x.writeHeader(http.StatusNoContent)
	default:
		x.notAllowed(errMethod)
	}
}

// open makes sure that there are descriptors left for the request. The request
// closes its files before end.
func (x *exchange) open() error {
	from := sourceOf(x.Peer.Addr())
	if !x.h.open.take(from, cmp.Or(x.h.MaxOpen, DefaultMaxOpen)) {
		return errManyOpen
	}
	x.opened, x.source = true, from
	return nil
}

// allow says which methods there are.
func (x *exchange) allow() {
	methods := "GET, HEAD, OPTIONS"
	switch a := x.acct.Access; {
	case !a.reads():
		methods = "PUT, OPTIONS"
	case a.deletes():
		methods = "GET, HEAD, PUT, DELETE, OPTIONS"
	case a.writes():
		methods = "GET, HEAD, PUT, OPTIONS"
	}
	x.set("Allow", methods)
	if x.acct.Access.writes() {
		x.set("Accept-Upload-Range", "bytes") // section 5 of docs/http.md
	}
}

// notAllowed refuses a method, and lists those that there are.
func (x *exchange) notAllowed(why *failure) {
	x.allow()
	x.fail(why)
}
