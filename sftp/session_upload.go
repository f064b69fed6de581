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
// Any other request that uses the name, such as a rename or a read, publishes the file as it is.
// From then on the file is written in place.
type hiddenUpload struct {
	key  uploadKey
	path string // path of the file on the disk; "" if unknown

	// mu is read-locked by writes, which may run in parallel, and write-locked by operations that
	// exclude writes.
	mu     sync.RWMutex
	conn   *userConn    // connection of the first handle, users[0]; guarded by mu
	hidden store.Upload // nil once the upload is published or discarded; guarded by mu
	placed store.Handle // the published file while it is written in place, otherwise nil; guarded by mu

	published *store.Published // describes the published file; hidden.Commit fills it in
	failed    error            // why both `hidden` and `placed` are nil; fs.ErrClosed if nothing failed; guarded by mu
	users     []*sessionHandle // the open handles; closing the first one publishes the upload; guarded by mu

	end   atomic.Int64          // size of the file while it is hidden
	broke atomic.Pointer[error] // the first error of a write while the upload was hidden
	perm  fs.FileMode           // permission bits that the file gets if attr has no Mode
	attr  store.Attr            // attributes to set when the upload is published; guarded by mu
}

// An uploadKey identifies a hidden upload by its user and the name of its file in the store.
type uploadKey struct{ user, name string }

// pendingUploads maps users and names to hidden uploads. If several uploads have the same user and
// name, only the latest can be found; the others continue without an entry.
type pendingUploads struct {
	mu    sync.Mutex
	byKey map[uploadKey]*hiddenUpload // guarded by mu
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
// uploads. An account that may only add files sees the uploads of its own connection, and those of
// other connections only if they have temporary names.
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

// publishPending publishes the hidden upload with that name, if there is one. It does nothing for
// accounts without full access, whose requests will be refused in any case.
func (c *userConn) publishPending(name string) error {
	u := c.pending(name)
	if u == nil || c.account.Access != users.Full {
		return nil
	}
	return u.publishInPlace()
}

// publishOwn is like publishPending, but also serves accounts without full access. It is for
// requests that upload-only accounts may make for their own files.
func (c *userConn) publishOwn(name string) error {
	if u := c.pending(name); u != nil {
		return u.publishInPlace()
	}
	return nil
}

// createHidden begins a hidden upload, with h as its first handle. It fails with [store.ErrInPlace]
// if the store has to write the file in place.
func (c *userConn) createHidden(ctx context.Context, h *sessionHandle, perm fs.FileMode, exclusive bool) error {
	// Do not bind the upload to the channel's context: another handle may continue it (see leave).
	ctx = context.WithoutCancel(ctx)
	published := new(store.Published)
	hidden, err := c.tree.Create(ctx, h.name, store.Create{Perm: perm, Exclusive: exclusive, Published: published})
	if err != nil {
		return err
	}
	none := perm == 0 // Create would read 0 as the usual permissions, so zero permissions are set later
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

// WriteAt writes p at the offset off of the hidden file, or of the published file if that is
// written in place.
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
			broke := err // a copy that is made only on errors: &err would allocate at each call
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

// setAttr changes the size at once, and keeps the other attributes until the file is published.
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

// attrs returns the attributes that the file will have when it is published, or has already.
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

// placedInfo describes the file that is written in place. It returns nil if the upload is still
// hidden or has been closed.
func (u *hiddenUpload) placedInfo() (fs.FileInfo, error) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	if u.placed == nil {
		return nil, nil
	}
	return u.placed.Stat()
}

// sync makes written data durable. It does nothing while the file is hidden, because publishing
// makes the data durable before the file becomes visible.
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

// publishInPlace publishes the file as it is. Later data is written in place.
func (u *hiddenUpload) publishInPlace() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.hidden == nil && u.failed == fs.ErrClosed: // another channel has just closed the upload
		return nil
	case u.hidden == nil:
		return u.failed
	}
	err := u.publish()
	u.published.Close() // the published state is not final: more data will be written
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
// instead: the client may have closed or renamed the file without checking for errors, and the old
// file is better than an incomplete new one. The caller holds mu.
func (u *hiddenUpload) publish() error {
	hidden := u.hidden
	u.hidden, u.failed = nil, fs.ErrClosed
	// The upload stays in the table until publish is done, so that a session that finds it there
	// waits for mu, and then sees that it is closed.
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
		return nil // the store never keeps attributes that clients set, so the file is complete
	}
	if err != nil {
		return fmt.Errorf("the file is published, but not as it should be: %w", err)
	}
	return nil
}

// early sets the attributes that can be set before the file is published, so that the file is never
// visible without them. It returns the attributes that remain to be set. The caller holds mu.
func (u *hiddenUpload) early(hidden store.Upload) (late store.Attr) {
	early, late := u.attr, u.attr
	early.UID, early.GID = nil, nil
	to, ok := store.As[store.AttrUpload](hidden)
	if !ok || early == (store.Attr{}) || to.SetAttr(early) != nil {
		return late
	}
	late.AccessTime, late.ModTime = time.Time{}, time.Time{}
	// With a new owner, set the mode again later: the change of the owner clears the setuid and
	// setgid bits.
	if late.UID == nil {
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
// the file is published. If that handle is closed for another reason, such as a lost connection,
// the next handle takes its place, because a client that has lost one of several connections
// continues on the others. When the last handle leaves, the upload is discarded.
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
	case first && !last: // the first handle may have belonged to a connection that is closed now
		u.conn = u.users[0].conn
	}
	h.transfer.Part = u.hidden != nil
	return nil
}
