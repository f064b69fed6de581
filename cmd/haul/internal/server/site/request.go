package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
	"github.com/haul-project/haul/store"
)

// A request holds one name that a client requests, and the facts about the client that are known so
// far. Only one goroutine uses it.
type request struct {
	ctx    context.Context
	site   *Site
	client Client
	write  bool

	looked bool // the client's hardware address was looked up, and the result is in mac, has and macErr
	mac    MAC
	has    bool
	macErr error
}

func (s *Site) request(ctx context.Context, c Client, write bool) *request {
	return &request{ctx: ctx, site: s, client: c.plain(), write: write}
}

// A place is the location of a requested file: a name in a store. If the name does not exist there
// and `fallback` is not empty, reads try that name.
type place struct {
	store          store.Store
	name, fallback string
	claims         bool // the name begins with the client's own directory, which does not exist
}

func (p place) stat(ctx context.Context) (fs.FileInfo, error) {
	fi, err := p.store.Stat(ctx, p.name)
	if p.fallback != "" && errors.Is(err, fs.ErrNotExist) {
		return p.store.Stat(ctx, p.fallback)
	}
	return fi, err
}

// place returns the location for a name that a client has sent.
func (q *request) place(name string) (place, error) {
	name, err := q.mapped(name)
	if err != nil {
		return place{}, err
	}
	return q.locate(name)
}

// locate returns the location for a name that the map has rewritten already.
func (q *request) locate(name string) (place, error) {
	clean, err := store.CleanName(name)
	if err != nil {
		return place{}, refuseName(err)
	}
	if err := q.allowed(clean); err != nil {
		return place{}, err
	}
	root, err := q.root()
	if err != nil {
		return place{}, err
	}
	p := place{store: root.Files, name: clean}
	if q.write && root.Uploads != nil {
		p.store = root.Uploads
	}
	if p.store == nil {
		return place{}, &Refusal{Message: "only uploads are allowed"}
	}
	return q.ownPlace(root, p)
}

func refuseName(err error) error {
	if errors.Is(err, store.ErrNotRegular) {
		return &Refusal{Message: "not a regular file", Reason: err}
	}
	return &Refusal{Message: "access violation", Reason: err}
}

// mapped returns the name after the rules of the site's map have rewritten it.
func (q *request) mapped(name string) (string, error) {
	if q.site.Map == nil {
		return name, nil
	}
	mapped, err := q.site.Map.Apply(MapQuery(name, q.write, q.client.Peer, q.exists))
	if err == nil {
		return mapped, nil
	}
	message := "file name cannot be mapped"
	if abort, ok := errors.AsType[*remap.Abort](err); ok {
		if message = presentable(abort.Message); message == "" {
			message = "access denied"
		}
	}
	return "", &Refusal{Message: message, Reason: err}
}

// exists reports whether the request could use a name, for rules of the map that ask for that: a
// read needs a file with this name, and for an upload, a file with this name must not exist or must
// be replaceable.
func (q *request) exists(name string) bool {
	p, err := q.locate(name)
	if err != nil {
		return false
	}
	fi, err := p.stat(q.ctx)
	if !q.write {
		return err == nil && fi.Mode().IsRegular()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case err != nil:
		return false
	}
	return fi.Mode().IsRegular() && q.site.Upload != UploadCreate
}

// allowed returns an error if the access rules deny this request for `name`, which must be a clean
// name.
func (q *request) allowed(name string) error {
	if len(q.site.Access) == 0 {
		return nil
	}
	n := newSubject(name)
	allowing := exact
	if q.site.FoldCase {
		allowing = folded
	}
	for i := range q.site.Access {
		r := &q.site.Access[i]
		last := allowing
		if r.Deny {
			last = spelled
		}
		if !r.covers(q.write) || !r.Name.matches(n, last) {
			continue
		}
		fits, err := q.fits(r.Who)
		if err != nil {
			return err
		}
		if fits && r.Deny {
			return &Refusal{Message: "access denied", Reason: fmt.Errorf("access rule %d: %s", i+1, r)}
		}
		if fits {
			return nil
		}
	}
	return nil
}

// root returns the first root whose match the client fits.
func (q *request) root() (*Root, error) {
	for i := range q.site.Roots {
		r := &q.site.Roots[i]
		fits, err := q.fits(r.Match)
		if err != nil {
			return nil, err
		}
		if fits {
			return r, nil
		}
	}
	return nil, &Refusal{Message: "access denied", Reason: errors.New("no root is for this client")}
}

// fits reports whether the client fits the match m. It looks up the client's hardware address only
// if the address is needed.
func (q *request) fits(m Match) (bool, error) {
	if m.IsZero() || m.fitsAddr(q.client) {
		return true, nil
	}
	if len(m.MACs) == 0 {
		return false, nil
	}
	mac, ok, err := q.hardware()
	return ok && m.fitsMAC(mac), err
}

// hardware returns the client's hardware address, if that is known. It looks up the hardware
// address once per request.
func (q *request) hardware() (MAC, bool, error) {
	if q.site.Neighbours == nil {
		return MAC{}, false, nil
	}
	if !q.looked {
		q.looked = true
		q.mac, q.has, q.macErr = q.site.Neighbours.MAC(q.client.Peer)
	}
	if q.macErr != nil {
		return MAC{}, false, fmt.Errorf("hardware address of %s: %w", q.client.Peer, q.macErr)
	}
	return q.mac, q.has, nil
}

// ownPlace returns p or, if root contains the client's own directory, the same name in that
// directory.
func (q *request) ownPlace(root *Root, p place) (place, error) {
	own, err := q.ownName(root.PerClient)
	if err != nil {
		return place{}, err
	}
	// A client that asks for another client's directory must not even find out that it was refused,
	// so report that the file does not exist.
	first, _, _ := strings.Cut(p.name, "/")
	if first != own && root.PerClient.names(first) {
		op := "open"
		if q.write {
			op = "create"
		}
		return place{}, &fs.PathError{Op: op, Path: p.name, Err: fs.ErrNotExist}
	}
	if own == "" {
		return p, nil
	}
	p.claims = first == own
	fi, err := p.store.Stat(q.ctx, own)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid): // on Windows a name with a colon, such as an IPv6 address, is invalid
		return p, nil
	case err != nil:
		// Do not use the common root, because the client may have its own directory.
		return place{}, err
	case !fi.IsDir():
		return p, nil
	}
	if root.Shared && !q.write {
		p.fallback = p.name
	}
	p.name, p.claims = own+"/"+p.name, false
	return p, nil
}

// ownName returns the name of the client's directory. It returns "" if the client cannot have a
// directory, or if its hardware address is not known.
func (q *request) ownName(kind PerClient) (string, error) {
	switch kind {
	case ByIP:
		if q.client.Peer.IsValid() {
			return q.client.Peer.String(), nil
		}
	case ByMAC:
		mac, ok, err := q.hardware()
		if ok {
			return mac.dashed(), nil
		}
		return "", err
	}
	return "", nil
}
