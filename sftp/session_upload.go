package sftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// A hiddenUpload is a file that only its user sees until the handle that created it is closed.
// Meanwhile the user can use its name for the operations that clients usually do before they close
// a file. They can also open it again to write to it, as clients with several channels do.
//
// Any other request for the name, such as a rename or a read, publishes the file as it is. From
// then on it is written in place.
type hiddenUpload struct {
	key  uploadKey
	path string // path on the disk

	mu     sync.RWMutex // locked for reading by writers, and for writing by operations that exclude them
	conn   *userConn    // mu: the connection of the first of users
	hidden store.Upload // mu: nil once it is published or discarded
	placed store.Handle // mu: the published file that is written in place; nil before

	published *store.Published // set by the Commit of hidden
	failed    error            // mu: why hidden and placed are nil; fs.ErrClosed if nothing failed
	users     []*sessionHandle // mu: the handles; closing the first publishes the upload

	end   atomic.Int64          // the file's size
	broke atomic.Pointer[error] // the first error of a write while the upload was hidden
	perm  fs.FileMode
	attr  store.Attr // mu: attributes to set when it is published
}

// An uploadKey identifies hidden uploads.
type uploadKey struct{ user, name string }

// pendingUploads holds the hidden uploads. If several have the same key, only the latest is found;
// the others continue unlisted.
type pendingUploads struct {
	mu    sync.Mutex
	byKey map[uploadKey]*hiddenUpload // mu
}

func (p *pendingUploads) add(u *hiddenUpload) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey == nil {
		p.byKey = map[uploadKey]*hiddenUpload{}
	}
	p.byKey[u.key] = u
}

func (p *pendingUploads) remove(u *hiddenUpload) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey[u.key] == u {
		delete(p.byKey, u.key)
	}
}

func (p *pendingUploads) get(key uploadKey) *hiddenUpload {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byKey[key]
}

// pending returns the hidden upload with that name, or nil. Read-only accounts see no hidden
// uploads. Accounts that only add files see only the uploads of their own connection, except for
// temporary names.
func (c *userConn) pending(name string) *hiddenUpload {
	if !c.account.Hidden || c.account.Access == users.ReadOnly {
		return nil
	}
	u := c.server.shared.pending.get(uploadKey{c.info.User, name})
	if u != nil && c.account.addsOnly() && !u.of(c) && !isTempName(name) {
		return nil
	}
	return u
}

func (u *hiddenUpload) of(c *userConn) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.conn == c
}

// publishPending publishes the hidden upload with that name, if there is one. A request that will
// be refused in any case does not publish it.
func (c *userConn) publishPending(name string) error {
	u := c.pending(name)
	if u == nil || c.account.Access != users.Full {
		return nil
	}
	return u.publishInPlace()
}

// publishOwn is publishPending for requests that upload-only accounts too may make for their own
// files.
func (c *userConn) publishOwn(name string) error {
	if u := c.pending(name); u != nil {
		return u.publishInPlace()
	}
	return nil
}

// createHidden begins a hidden upload with its first handle. It fails with [store.ErrInPlace] if
// the file has to be written in place.
func (c *userConn) createHidden(ctx context.Context, h *sessionHandle, perm fs.FileMode, exclusive bool) error {
	// The upload may outlive the channel: see leave.
	ctx = context.WithoutCancel(ctx)
	published := new(store.Published)
	hidden, err := c.tree.Create(ctx, h.name, store.Create{Perm: perm, Exclusive: exclusive, Published: published})
	if err != nil {
		return err
	}
	none := perm == 0 // Create would read 0 as the usual permissions, so they are set later
	if a, ok := store.As[store.AttrUpload](hidden); ok && !none {
		if bits, ok := a.Perm(); ok {
			perm = bits
		}
	}
	u := &hiddenUpload{key: uploadKey{c.info.User, h.name}, path: store.LocationOf(hidden).Path, conn: c, hidden: hidden, published: published, perm: perm}
	if none {
		u.attr.Mode = &u.perm
	}
	u.enter(h)
	c.server.shared.pending.add(u)
	return nil
}

// WriteAt writes p at off.
func (u *hiddenUpload) WriteAt(p []byte, off int64) (int, error) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	switch {
	case u.hidden != nil:
		n, err := u.hidden.WriteAt(p, off)
		if n > 0 {
			u.extend(off + int64(n))
		}
		if err != nil {
			broke := err // &err would allocate at each call
			u.broke.CompareAndSwap(nil, &broke)
		}
		return n, err
	case u.placed != nil:
		return u.placed.WriteAt(p, off)
	}
	return 0, u.failed
}

func (u *hiddenUpload) extend(end int64) {
	for {
		now := u.end.Load()
		if end <= now || u.end.CompareAndSwap(now, end) {
			return
		}
	}
}

// setAttr changes the size at once, and keeps the other attributes for publishing.
func (u *hiddenUpload) setAttr(a store.Attr) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.placed != nil:
		return u.placed.SetAttr(a)
	case u.hidden == nil:
		return u.failed
	}
	refused := u.conn.account.addsOnly() && (a.UID != nil || a.GID != nil)
	if refused {
		a.UID, a.GID = nil, nil
	}
	var err error
	if a.Size != nil {
		if err = u.hidden.Truncate(*a.Size); err == nil {
			u.end.Store(*a.Size)
		}
	}
	if a.UID != nil || a.GID != nil {
		u.attr.UID, u.attr.GID = a.UID, a.GID
	}
	if a.Mode != nil {
		u.attr.Mode = a.Mode
	}
	if !a.AccessTime.IsZero() || !a.ModTime.IsZero() {
		u.attr.AccessTime, u.attr.ModTime = a.AccessTime, a.ModTime
	}
	if err == nil && refused {
		err = fs.ErrPermission
	}
	return err
}

// attrs returns the attributes that the file will have.
func (u *hiddenUpload) attrs() (a wire.Attrs, err error) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	switch {
	case u.placed != nil:
		fi, err := u.placed.Stat()
		if err == nil {
			a, _ = storewire.AttrsOf(fi)
		}
		return a, err
	case u.hidden == nil:
		return a, u.failed
	}
	mode := u.perm
	if u.attr.Mode != nil {
		mode = *u.attr.Mode
	}
	a.SetSize(u.end.Load())
	a.SetMode(wire.ModeOf(uint32(mode)))
	accessed, modified := u.attr.AccessTime, u.attr.ModTime
	if modified.IsZero() {
		modified = time.Now()
	}
	if accessed.IsZero() {
		accessed = modified
	}
	a.SetTimes(accessed, modified)
	if u.attr.UID != nil && u.attr.GID != nil {
		a.SetOwner(*u.attr.UID, *u.attr.GID)
	}
	return a, nil
}

// placedInfo describes the file that is written in place. It returns nil while the upload is
// hidden.
func (u *hiddenUpload) placedInfo() (fs.FileInfo, error) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if u.placed == nil {
		return nil, nil
	}
	return u.placed.Stat()
}

// sync does nothing while the file is hidden: it becomes durable before it becomes visible.
func (u *hiddenUpload) sync() error {
	u.mu.RLock()
	defer u.mu.RUnlock()
	switch {
	case u.placed != nil:
		return u.placed.Sync()
	case u.hidden == nil:
		return u.failed
	}
	return nil
}

// publishInPlace publishes the file as it is. Further data is written in place.
func (u *hiddenUpload) publishInPlace() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.hidden == nil && u.failed == fs.ErrClosed: // another channel has just closed it
		return nil
	case u.hidden == nil:
		return u.failed
	}
	err := u.publish()
	u.published.Close() // more will be written
	if err != nil {
		return err
	}
	placed, err := u.conn.tree.OpenFile(context.WithoutCancel(u.conn.ctx), u.key.name, store.Access{Write: true})
	if err != nil {
		u.failed = err
		return err
	}
	u.placed, u.failed = placed, nil
	return nil
}

// publish gives the file its name and its attributes. If a write has failed, it discards the upload
// instead: the client may have closed or renamed the file without looking at errors, and the old
// file is better than an incomplete new one. The caller holds mu.
func (u *hiddenUpload) publish() error {
	hidden := u.hidden
	u.hidden, u.failed = nil, fs.ErrClosed
	// A session that has already found this upload waits for mu, and then finds the upload closed.
	defer u.conn.server.shared.pending.remove(u)
	if broke := u.broke.Load(); broke != nil {
		_ = hidden.Close()
		u.failed = fmt.Errorf("the upload is discarded, as a write has failed: %w", *broke)
		return u.failed
	}
	late := u.early(hidden)
	if err := hidden.Commit(); err != nil {
		u.failed = err
		return err
	}
	if late == (store.Attr{}) {
		return nil
	}
	// Use the account's own tree: an upload-only account may not change the attributes of a
	// published file, but this change was allowed before.
	tree := u.conn.account.Tree
	err := tree.SetAttr(context.WithoutCancel(u.conn.ctx), u.key.name, late, true)
	if errors.Is(err, errors.ErrUnsupported) && store.CapabilitiesOf(tree).OwnTimes {
		return nil // that store never keeps the attributes that clients set, and this file is complete
	}
	if err != nil {
		return fmt.Errorf("the file is published, but not as it should be: %w", err)
	}
	return nil
}

// early sets the attributes that can be set before the file is published, so that it is never
// visible without them. It returns the rest. The caller holds mu.
func (u *hiddenUpload) early(hidden store.Upload) (late store.Attr) {
	early, late := u.attr, u.attr
	early.UID, early.GID = nil, nil
	to, ok := store.As[store.AttrUpload](hidden)
	if !ok || early == (store.Attr{}) || to.SetAttr(early) != nil {
		return late
	}
	late.AccessTime, late.ModTime = time.Time{}, time.Time{}
	if late.UID == nil { // a new owner clears the setuid and setgid bits
		late.Mode = nil
	}
	return late
}

// enter adds a handle to the upload. It returns false if the upload is no longer hidden.
func (u *hiddenUpload) enter(h *sessionHandle) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.hidden == nil {
		return false
	}
	h.upload = u
	u.users = append(u.users, h)
	return true
}

// leave removes a handle from the upload. If the client closes the handle that created the upload,
// the file is published. If that handle ends in another way, such as with its connection, the next
// handle takes its place: a client that has lost one of several connections continues on the
// others. When the last handle leaves, the upload is discarded.
func (u *hiddenUpload) leave(h *sessionHandle, why error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	first := u.users[0] == h
	u.users = slices.DeleteFunc(u.users, func(o *sessionHandle) bool { return o == h })
	switch last := len(u.users) == 0; {
	case u.hidden != nil && first && why == nil:
		err := u.publish()
		h.transfer.Published = u.published.OrNil()
		return err
	case u.hidden != nil && last:
		hidden := u.hidden
		u.hidden, u.failed = nil, fs.ErrClosed
		u.conn.server.shared.pending.remove(u)
		return hidden.Close()
	case u.placed != nil && last:
		placed := u.placed
		u.placed, u.failed = nil, fs.ErrClosed
		h.transfer.written(placed)
		return placed.Close()
	case u.hidden == nil && u.placed == nil && first && u.failed != fs.ErrClosed:
		return u.failed
	case first && !last: // the connection of the first handle may have ended
		u.conn = u.users[0].conn
	}
	h.transfer.Part = u.hidden != nil
	return nil
}
