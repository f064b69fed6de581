package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/users"
)

var errNoAccount = errors.New("web: the handler lacks Store or Account; with Users it takes an Account")

func (h *Handler) init() {
	h.state.everybody = Account{Store: h.Store, Access: h.Access}
	h.state.rate.Set(h.Rate)
	h.state.logins.Users, h.state.logins.Exempt, h.state.logins.Checked = h.Users, h.Exempt, h.audit
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.state.once.Do(h.init)
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

// enter reads the name from the request's target, checks the login and finds the account.
func (x *exchange) enter() error {
	name, dir, err := nameOf(x.r.URL)
	if loader, ok := loaderName(x.r.URL.Path); ok && err == errDoubleSlash && x.reads() {
		name, err = loader, nil
	}
	if err == nil {
		x.name, x.dir = name, dir
		x.Name = "/" + name
		if name == "." {
			x.Name = "/"
		}
	} else if x.r.URL.Path == "*" && x.r.Method == http.MethodOptions {
		err = nil // the request asks about the server as a whole: RFC 9110 §9.3.7
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

// account finds the account of the request, and its rate.
func (x *exchange) account(v Visitor) error {
	switch {
	case x.h.Account != nil:
		a, err := x.h.Account(x.r.Context(), v)
		if _, refused := errors.AsType[*users.Refusal](err); refused {
			return x.challenge(fmt.Errorf("%w: %w", errLogin, err)) // the user was changed or removed after the login
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
		x.acct = &x.h.state.everybody
	}
	x.enterRate()
	return nil
}

// enterRate finds the rate that the request shares with other requests of the same user or source.
func (x *exchange) enterRate() {
	from := shares.Network(x.Peer.Addr())
	switch {
	case x.acct.Rate > 0:
		x.payer = payer{user: x.acct.User}
		x.throttle = x.h.state.payers.Enter(x.payer, x.acct.Rate)
	case x.h.RatePerSource > 0 && x.User == "" && from.IsValid():
		x.payer = payer{from: from}
		x.throttle = x.h.state.payers.Enter(x.payer, x.h.RatePerSource)
	}
}

// crossOrigin detects a PUT or DELETE that a browser sends on behalf of a page of another site. Most
// browsers first ask the server whether the page may send it, and this server never allows that. The
// check is for browsers that do not ask.
var crossOrigin http.CrossOriginProtection

func (x *exchange) serve() {
	if crossOrigin.Check(x.r) != nil {
		x.fail(errCrossOrigin)
		return
	}
	err := x.waitForRate()
	if err == nil && x.r.Method != http.MethodOptions {
		err = x.takeOpening()
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
		uploading{x}.put()
	case http.MethodDelete:
		if !a.deletes() {
			x.notAllowed(errNoRemovals)
			return
		}
		uploading{x}.remove()
	case http.MethodOptions:
		x.allow()
		x.writeHeader(http.StatusNoContent)
	default:
		x.notAllowed(errMethod)
	}
}

// takeOpening counts the request among those that may have files open. It returns ErrManyOpen if
// there are too many, so that enough descriptors remain. The method end subtracts the request again,
// after the request has closed its files.
func (x *exchange) takeOpening() error {
	x.source = shares.SourceOf(x.User, x.Peer.Addr())
	x.opened = x.h.state.open.Take(x.source, 1, shares.Bound{Most: cmp.Or(x.h.MaxOpen, DefaultMaxOpen), Times: openTimes})
	if !x.opened {
		return ErrManyOpen
	}
	return nil
}

// allow lists the allowed methods in the answer.
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
		x.set("Accept-Upload-Range", "bytes") // parts of uploads are accepted: section 5 of docs/http.md
	}
}

// notAllowed refuses a method, and lists the allowed methods in the answer.
func (x *exchange) notAllowed(why *failure) {
	x.allow()
	x.fail(why)
}
