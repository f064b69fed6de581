package status

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/haul-project/haul/internal/passwords"
	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/users"
)

// maxUser is how many bytes of a user's name are logged, because a client may send a name of any
// length.
const maxUser = 64

// A Login restricts access to a board to the users in a users file. They log in by name and
// password (RFC 7617). Their rights to files do not matter.
type Login struct {
	passwords passwords.Checker
	log       *slog.Logger
}

// NewLogin returns a Login that logs each password that it checks.
func NewLogin(d *users.Directory, log *slog.Logger) *Login {
	l := &Login{log: log}
	l.passwords.Users, l.passwords.Checked = d, l.checked
	return l
}

// checked logs the result after a password was checked.
func (l *Login) checked(name string, from netip.Addr, err error) {
	attrs := []any{"user", clip(name, maxUser), "peer", from.Unmap().String()}
	if refusal, wrong := errors.AsType[*users.Refusal](err); wrong {
		l.log.Warn("status login", append([]any{"result", "refused", "error", refusal.Reason}, attrs...)...)
	} else if err == nil {
		l.log.Info("status login", append([]any{"result", "accepted"}, attrs...)...)
	}
}

// loginKey is the key under which a request's context contains the login.
type loginKey struct{}

// admit checks the login of a request. It returns the request with the login in its context. If it
// returns false, the login was refused, and admit has answered the request.
func (l *Login) admit(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	name, password, ok := r.BasicAuth()
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	var login *users.Login
	err := error(&users.Refusal{})
	if ok {
		login, err = l.passwords.Check(r.Context(), time.Now(), from.Addr(), name, password)
	}
	if refusal, ok := errors.AsType[*penalty.Refusal](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(int(refusal.For/time.Second)+1))
		http.Error(w, "Too many logins have failed.", http.StatusTooManyRequests)
		return nil, false
	}
	if _, ok := errors.AsType[*users.Refusal](err); ok {
		w.Header().Set("WWW-Authenticate", `Basic realm="haul status", charset="UTF-8"`)
		http.Error(w, "The status page needs a login.", http.StatusUnauthorized)
		return nil, false
	}
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Too many logins are under way.", http.StatusServiceUnavailable)
		return nil, false
	}
	return r.WithContext(context.WithValue(r.Context(), loginKey{}, login)), true
}

// holds reports whether the login of a long request is still valid. For a nil Login it always
// returns true.
func (l *Login) holds(r *http.Request) bool {
	if l == nil {
		return true
	}
	login, ok := r.Context().Value(loginKey{}).(*users.Login)
	return ok && l.passwords.Users.Recheck(login) == nil
}
