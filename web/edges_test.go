package web_test

import (
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// Ranges count against the bound even if they all lie beyond the end of the file.
func TestRangesTooMany(t *testing.T) {
	h := &web.Handler{Store: mem(t, map[string]string{"f": digits20})}
	missing := func(n int) string { return "Range: bytes=" + strings.Repeat("30-,", n) + "0-0" }
	ask(t, h, "GET /f", "", missing(63)).want(t, http.StatusPartialContent, "0")
	ask(t, h, "GET /f", "", missing(64)).want(t, http.StatusOK, digits20)
}

// A weak validator is not enough for If-Match, nor for If-Range (RFC 9110 §13.1.1 and §13.1.5),
// neither as a tag nor as a date.
func TestWeakValidators(t *testing.T) {
	st := mem(t, map[string]string{"f": digits20})
	touch(t, st, "f", old.Truncate(time.Second)) // a copy of another file often has such a time
	h := &web.Handler{Store: st}
	head := ask(t, h, "HEAD /f", "")
	tag, modified := head.header.Get("Etag"), head.header.Get("Last-Modified")
	if !strings.HasPrefix(tag, `W/"`) || modified == "" {
		t.Fatalf("the tag is %s, last modified %s", tag, modified)
	}
	ask(t, h, "GET /f", "", "If-Match: "+tag).want(t, http.StatusPreconditionFailed, "*")
	ask(t, h, "GET /f", "", "If-None-Match: "+tag).want(t, http.StatusNotModified, "")
	for _, version := range []string{tag, strings.TrimPrefix(tag, "W/"), modified} {
		ask(t, h, "GET /f", "", "Range: bytes=0-1", "If-Range: "+version).want(t, http.StatusOK, digits20)
	}
}

// A part that ends one byte after the end of the file is refused, even if the store keeps parts of
// uploads.
func TestPutPartBehindEnd(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the store keeps uploads where there are locks")
	}
	st, path := dir(t, nil)
	h := &web.Handler{Store: st, Access: web.AccessOverwrite}
	ask(t, h, "PUT /f", "abcd", "Content-Range: bytes 0-3/3").want(t, http.StatusBadRequest, "*")
	ask(t, h, "PUT /f", "d", "Content-Range: bytes 3-3/3").want(t, http.StatusBadRequest, "*")
	wantNames(t, path)
}

// A user cannot resume another user's upload, even with the same file, size and source.
func TestPutPartsOfUsers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the store keeps uploads where there are locks")
	}
	st, _ := dir(t, nil)
	of := func(user string) *web.Handler {
		return &web.Handler{Account: account(web.Account{User: user, Store: st, Access: web.AccessOverwrite})}
	}
	const source = "Upload-Source: one"
	ask(t, of("alice"), "PUT /f", "0123456789", "Content-Range: bytes 0-9/20", source).want(t, http.StatusAccepted, "*")
	for user, there := range map[string]string{"alice": "10", "bob": "0"} {
		a := ask(t, of(user), "PUT /f", "", "Content-Range: bytes */20", source)
		a.wantField(t, "Upload-Offset", there)
	}
}

// A remembered password belongs to its user: moving letters between the name and the password makes
// another login.
func TestPasswordBoundary(t *testing.T) {
	c := newClub(t, users.User{Name: "alice", Password: hashOf(t, "wonderland")})
	c.Exempt = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	for range 2 { // the password is checked, and then remembered
		c.as(here, "alice", "wonderland", "GET /whose").want(t, http.StatusOK, "alice")
		c.as(here, "alic", "ewonderland", "GET /whose").want(t, http.StatusUnauthorized, "*")
		c.as(here, "alicew", "onderland", "GET /whose").want(t, http.StatusUnauthorized, "*")
	}
}
