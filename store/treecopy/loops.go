package treecopy

import (
	"io/fs"
	"path"

	"github.com/haul-project/haul/store"
)

// A dirIdentity identifies a directory of a source. It is used to find links that lead to a
// directory above themselves.
type dirIdentity struct {
	info fs.FileInfo // description of the directory, for store.SameFile; nil if it is not known
	real string      // path that RealPath of the tree returns; "" if it is not known
}

// below returns the identity of a directory within this one.
func (i dirIdentity) below(base string, fi fs.FileInfo) dirIdentity {
	if i.real == "" {
		return dirIdentity{info: fi}
	}
	return dirIdentity{fi, path.Join(i.real, base)}
}

// identityOf returns the identity of a directory at which the copy starts.
func (t *task) identityOf(s *start) dirIdentity {
	i := dirIdentity{info: s.info}
	if t.opts.Links == FollowLinks {
		i.real = t.realPath(s.tree, s.name)
	}
	return i
}

// realPath returns the path that a name of a source leads to, or "" if the tree cannot resolve
// names. In that case, only maxFollowed stops a loop.
func (t *task) realPath(of *tree, name string) string {
	if of.can.RealPath == nil {
		return ""
	}
	real, err := of.can.RealPath(t.ctx, name)
	if err != nil {
		return ""
	}
	return real
}

// holdsTarget reports whether a directory of the source, to which a symbolic link in d leads, is
// the target or contains the target. Copying such a directory would never end. `real` is the path
// of the directory that the link leads to.
func (t *task) holdsTarget(d *dir, real string) bool {
	return t.realTop != "" && real != "" && d.source.origin == t.origin && (real == t.realTop || isBelow(t.realTop, real))
}

// leadsBack reports whether i is d, or a directory through which d was reached.
func (d *dir) leadsBack(i dirIdentity) bool {
	for ; d != nil && d.source != nil; d = d.parent {
		if d.origin.info != nil && store.SameFile(d.origin.info, i.info) || i.real != "" && d.origin.real == i.real {
			return true
		}
	}
	return false
}

// A ledTo describes an entry that was looked up, under the entry's own name. For a link that is
// followed, it describes the target of the link.
type ledTo struct {
	fs.FileInfo
	name string
	link bool   // the entry is, or may be, a symbolic link, and links are followed
	real string // path that RealPath of the tree returns, if the link leads to a directory
}

func (l ledTo) Name() string { return l.name }

// origin returns the identity of an entry of d that fi describes. l is the zero value if the entry
// was not looked up.
func (l ledTo) origin(d *dir, fi fs.FileInfo) dirIdentity {
	if l.link {
		return dirIdentity{fi, l.real}
	}
	return d.origin.below(fi.Name(), fi)
}
