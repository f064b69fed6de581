// Package site decides which file a client's request refers to, and whether the client may access
// it. It does so in the same way for every protocol.
//
// A [Site] is built once, checked, and then used for each transfer:
//
//	s := &site.Site{
//		Roots:  []site.Root{{Files: localdir.New(boot)}},
//		Access: []site.Rule{deny},
//		Upload: site.UploadUnique,
//	}
//	if err := s.Check(); err != nil {
//		return err
//	}
//	f, err := s.Open(ctx, site.Client{Peer: peer, Local: local}, name)
//
// A name passes these steps: as the client sent it → [Site.Map] → [store.CleanName] → [Site.Access]
// → the first of [Site.Roots] that is for the client → the client's own directory there, if it has
// one → the store.
//
// # Errors
//
// The site's own refusals are a [*Refusal]. errors.Is reports that it is an [fs.ErrPermission], and
// it contains a text for the client. Other errors come from package store, or say that the
// neighbour table could not be read.
package site

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
	"github.com/haul-project/haul/store"
)

// A Site says which files are served to which clients. Its fields must not change once it is in
// use. Any goroutine may then call its methods. It must not be copied.
type Site struct {
	// Roots are tried in order. A client gets the first root whose Match it fits, and no other
	// root. A client that fits no root is refused.
	Roots []Root

	// Map rewrites the names that clients send; nil leaves them as they are.
	Map *remap.Rules

	// Access holds the rules that allow or deny requests. The first rule that matches a request
	// decides. If no rule matches, the request is allowed, so a list of allowed requests has to end
	// in "deny all *".
	Access []Rule

	// FoldCase says that the stores ignore case in names, so that rules that allow have to ignore
	// it as well. Rules that deny always ignore case. They also match all spellings that some file
	// system treats as the same name: Unicode's normal forms, invisible characters, and two letters
	// for one, such as ss for ß.
	FoldCase bool

	// Upload says which uploads are accepted; zero means that no upload is accepted.
	Upload Policy

	// Neighbours looks up the hardware addresses that [Match] and [ByMAC] need; nil means that no
	// hardware address is known. See [KernelNeighbours].
	Neighbours Neighbours

	// Now returns the time that [UploadUnique] inserts in names; nil means time.Now.
	Now func() time.Time

	// Opened, if it is set, is called after a client has opened a file for reading. name is the
	// file's name in the store.
	Opened func(c Client, name string)

	stamp atomic.Int64 // the latest time that was used in a unique name, in Unix milliseconds
}

// A Root is a tree of files, and the clients that it is served to.
type Root struct {
	Match Match // the clients; the zero Match means all clients

	// Files holds the files for reading; nil means that clients cannot read.
	Files store.Store

	// Uploads is the store that uploads are written to; nil means Files. If it is another store,
	// clients can neither read its files nor find out whether they exist.
	Uploads store.Store

	// PerClient says whether clients have their own directories in this root, and how these are
	// named.
	PerClient PerClient

	// Shared applies to clients with their own directory: if a file is missing there, they read the
	// file from the common root. dnsmasq does not do this.
	Shared bool
}

// Check returns an error if the site cannot work as intended, for example because it has no root.
func (s *Site) Check() error {
	if len(s.Roots) == 0 {
		return errors.New("site: no root, so there is nothing to serve")
	}
	for i, r := range s.Roots {
		if r.Files == nil && r.Uploads == nil {
			return fmt.Errorf("site: root %d has no store", i+1)
		}
		if r.PerClient > ByMAC {
			return fmt.Errorf("site: root %d: unknown kind %d of per-client directory", i+1, r.PerClient)
		}
	}
	if s.NeedsNeighbours() && s.Neighbours == nil {
		if !NeighboursSupported {
			return fmt.Errorf("site: hardware (MAC) addresses in a rule or root: %w", errNeighbours)
		}
		return errors.New("site: hardware (MAC) addresses in a rule or root need the neighbour table")
	}
	if s.Upload > UploadUnique {
		return fmt.Errorf("site: unknown upload policy %d", s.Upload)
	}
	return nil
}

// NeedsNeighbours reports whether a root or a rule uses hardware addresses, so that Neighbours has
// to be set.
func (s *Site) NeedsNeighbours() bool {
	return slices.ContainsFunc(s.Roots, func(r Root) bool { return r.PerClient == ByMAC || len(r.Match.MACs) > 0 }) ||
		slices.ContainsFunc(s.Access, func(r Rule) bool { return len(r.Who.MACs) > 0 })
}

// A Policy says which uploads are accepted.
type Policy uint8

// These are the policies for uploads.
const (
	UploadNone      Policy = iota // accepts no uploads
	UploadCreate                  // accepts only uploads under names that do not exist yet
	UploadOverwrite               // accepts all uploads, which may replace existing files
	UploadUnique                  // stores each upload under a unique name: the client's name and the time
)

var policies = [...]string{UploadNone: "none", UploadCreate: "create", UploadOverwrite: "overwrite", UploadUnique: "unique"}

// String returns "none", "create", "overwrite" or "unique".
func (p Policy) String() string {
	if int(p) < len(policies) {
		return policies[p]
	}
	return "policy " + strconv.Itoa(int(p))
}

// ParsePolicy reads the text that [Policy.String] returns.
func ParsePolicy(s string) (Policy, error) {
	if i := slices.Index(policies[:], s); i >= 0 {
		return Policy(i), nil
	}
	return 0, fmt.Errorf("upload policy %q: write one of %s", s, strings.Join(policies[:], ", "))
}
