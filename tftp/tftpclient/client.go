package tftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

const (
	// defaultWindow is the largest window that a Client asks for by default, in blocks. It fills a
	// gigabit link with a round trip of 1 ms, and is no more than switches buffer.
	defaultWindow = 128

	// defaultWindowBytes bounds the default window for large blocks, in bytes. With more data in
	// flight than a processor's cache holds, transfers are slower.
	defaultWindowBytes = 1 << 20
)

// A Client fetches files from TFTP servers and sends files to them. The zero Client asks for the
// fastest options. Thousands of calls of its methods may run concurrently; each uses its own
// socket.
type Client struct {
	// BlockSize is the block size to ask for, in bytes, 8 to 65464. 0 means the largest size that
	// fits the path's MTU.
	BlockSize int

	// Window is the window to ask for, in blocks, 1 to 65535. 0 means 128, or less if the kernel's
	// receive buffer is small. The client asks for less if two windows would not fit in 64 MiB.
	Window int

	Timeout      time.Duration     // timeout to ask for: whole seconds, 1 s to 255 s; 0 asks for none
	MicroTimeout time.Duration     // utimeout to ask for, 10 ms to 255 s; 0 asks for none
	Rollover     transfer.Rollover // rollover to ask for; the zero value asks for none
	NoOptions    bool              // ask for no options at all, as in RFC 1350
	Plain        bool              // do not use kernel offloads

	// NoReorder makes downloads drop blocks that arrive out of order, so that the server must send
	// everything after a gap again. It is for measurements.
	NoReorder bool

	// Progress, if set, is called from time to time, and once at the end of the transfer. Its
	// arguments are the number of bytes moved and the file's size, or -1 while that is unknown. The
	// goroutine of each transfer calls it, so concurrent transfers of one Client may call it at the
	// same time.
	Progress func(bytes, size int64)

	// Trace, if set, is called with each datagram that is received or sent. Concurrent transfers
	// may call it at the same time. It must not keep the slice `data`.
	Trace func(at time.Time, sent bool, peer, local netip.AddrPort, data []byte)

	dallying group
}

// Get fetches a file. Once the server has agreed to send it, Get calls create with the file's size,
// or -1 if the server did not report it. It writes the file to the Upload that create returns. When
// the file is complete, Get commits the Upload, before it sends the last acknowledgement. If the
// transfer fails, Get discards the Upload.
//
// Errors wrap a *[transfer.Error] if the server refuses the request, [transfer.ErrSilent] if it
// does not answer, syscall.ECONNREFUSED if no server listens, or an error from create or the
// Upload.
func (c *Client) Get(ctx context.Context, t Target, create func(size int64) (store.Upload, error)) (Result, error) {
	res, err := c.each(ctx, t, func(x *exchange, offer transfer.Options) error {
		return x.get(ctx, transfer.Request{Name: t.Name, Mode: t.Mode, Offer: offer}, create)
	})
	if err != nil {
		err = fmt.Errorf("get %v: %w", t, err)
	}
	return res, err
}

// GetFile fetches the file at a URL (see [ParseURL]) to a local path. The file appears there only
// when it is complete, and replaces any file of that name.
func (c *Client) GetFile(ctx context.Context, rawURL, path string) (Result, error) {
	t, err := ParseURL(rawURL)
	if err != nil {
		return Result{}, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // follow a symbolic link, so that GetFile replaces its target
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return Result{}, fmt.Errorf("write %s: %w", path, err)
	}
	defer root.Close()
	return c.Get(ctx, t, func(size int64) (store.Upload, error) {
		u, err := localdir.New(root).Create(ctx, filepath.Base(path), store.Create{Size: size, Perm: store.UserPerm()})
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
		return u, nil
	})
}

// Put sends size bytes of src to a server, to be stored under the target's name. A nil error means
// that the server has acknowledged the whole file. Errors are like those of Get.
func (c *Client) Put(ctx context.Context, t Target, src io.ReaderAt, size int64) (Result, error) {
	res, err := c.each(ctx, t, func(x *exchange, offer transfer.Options) error {
		return x.put(ctx, transfer.Request{Write: true, Name: t.Name, Mode: t.Mode, Offer: offer}, src, size)
	})
	if err != nil {
		err = fmt.Errorf("put %v: %w", t, err)
	}
	return res, err
}

// PutFile sends the regular file at path to the target of a URL.
func (c *Client) PutFile(ctx context.Context, path, rawURL string) (Result, error) {
	t, err := ParseURL(rawURL)
	if err != nil {
		return Result{}, err
	}
	f, size, err := openSource(ctx, path)
	if err != nil {
		return Result{}, err
	}
	defer f.Close()
	return c.Put(ctx, t, f, size)
}

// openSource opens a regular file to be sent, and returns its size. It refuses a file whose size is
// not known beforehand, such as one in /proc.
func openSource(ctx context.Context, path string) (store.File, int64, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	info, err := os.Stat(path) // before opening, because opening a pipe would wait for its other end
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "send", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, 0, err
	}
	f, err := openFast(ctx, path)
	if err != nil {
		return nil, 0, err
	}
	if n, _ := f.ReadAt(make([]byte, 1), info.Size()); n > 0 {
		_ = f.Close()
		return nil, 0, &fs.PathError{Op: "send", Path: path, Err: errors.New("its size is not known beforehand, or it grows")}
	}
	return f, info.Size(), nil
}

// openFast opens a file so that blocks in memory can be read without waiting, if its directory can
// be opened.
func openFast(ctx context.Context, path string) (store.File, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return os.Open(path)
	}
	defer root.Close()
	return localdir.New(root).Open(ctx, filepath.Base(path))
}

// Size asks for a file's size in bytes without fetching the file. If the file fits in one block, it
// finds the size even if the server does not report it.
func (c *Client) Size(ctx context.Context, t Target) (int64, error) {
	size := int64(-1)
	_, err := c.each(ctx, t, func(x *exchange, offer transfer.Options) error {
		var err error
		// Without a window, the server sends the least data in vain. If it does not know tsize, a
		// small block reduces that data too.
		offer = transfer.Options{HasSize: offer.HasSize, BlockSize: min(offer.BlockSize, transfer.DefaultBlockSize)}
		size, err = x.size(ctx, transfer.Request{Name: t.Name, Mode: t.Mode, Offer: offer})
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("size of %v: %w", t, err)
	}
	return size, nil
}

// Wait waits until no finished transfer may have to repeat its last acknowledgement, which takes a
// few round trips. If a program exits earlier and that acknowledgement is lost, the server may not
// learn that the transfer succeeded. The program's own files are complete in any case.
func (c *Client) Wait() { c.dallying.wait() }

// each tries the addresses of the target's host one after the other until one answers. If a server
// refuses options, each tries that server again without options.
func (c *Client) each(ctx context.Context, t Target, try func(*exchange, transfer.Options) error) (Result, error) {
	if err := t.Check(); err != nil {
		return Result{}, err
	}
	ips, err := lookUpFew(ctx, t.Host)
	if err != nil {
		return Result{}, err
	}
	var res Result
	for _, ip := range ips {
		res, err = c.once(ctx, t.peerAt(ip), c.NoOptions, try)
		var fault *transfer.Error
		if errors.As(err, &fault) && fault.Remote && fault.Code == transfer.OptionsRefused && res.Bytes == 0 && !c.NoOptions {
			res, err = c.once(ctx, t.peerAt(ip), true, try) // RFC 2347 §3
		}
		if silent := errors.Is(err, transfer.ErrSilent) && !res.Peer.IsValid(); !silent && !unreachable(err) {
			break
		}
	}
	return res, err
}

// once runs one exchange with one address. If plain is true, the request has no options.
func (c *Client) once(ctx context.Context, server netip.AddrPort, plain bool, try func(*exchange, transfer.Options) error) (Result, error) {
	x, err := c.open(ctx, server)
	if err != nil {
		return Result{}, err
	}
	var offer transfer.Options
	if !plain {
		if offer, err = c.offer(server.Addr(), x.conn.Limits()); err != nil {
			x.close()
			return Result{}, err
		}
	}
	x.began = time.Now()
	err = try(x, offer)
	x.result.Duration = time.Since(x.began)
	x.result.Peer = x.peer
	if x.dally != nil && err == nil {
		c.dallying.run(x.dallyOn)
	} else {
		x.close()
	}
	return x.result, err
}

// offer returns the options to ask for.
func (c *Client) offer(server netip.Addr, limits udp.Limits) (transfer.Options, error) {
	o := transfer.Options{
		BlockSize:    c.BlockSize,
		Window:       c.Window,
		Timeout:      c.Timeout,
		MicroTimeout: c.MicroTimeout,
		Rollover:     c.Rollover,
		HasSize:      true,
	}
	if o.BlockSize == 0 {
		o.BlockSize = blockFor(server)
	}
	if err := o.Check(); err != nil {
		return o, err
	}
	if o.Window == 0 {
		// The kernel counts its own memory against the buffer, about as much as the data itself.
		// Blocks of a window that do not fit would be lost.
		fits := min(limits.Buffer/(2*o.BlockSize+1024), defaultWindowBytes/o.BlockSize)
		o.Window = min(defaultWindow, max(1, fits))
	}
	o.Window = min(o.Window, max(1, maxClientRing/(2*o.BlockSize)))
	return o, nil
}

// blockFor returns the size of the largest block that reaches a server unfragmented, in bytes.
func blockFor(server netip.Addr) int {
	mtu, err := udp.PathMTU(server)
	if err != nil {
		mtu = 1500
	}
	return min(max(packetio.BlockIn(mtu, server), transfer.DefaultBlockSize), transfer.MaxBlockSize)
}

// open creates an exchange, and opens its socket.
func (c *Client) open(ctx context.Context, server netip.AddrPort) (*exchange, error) {
	any4 := netip.IPv4Unspecified()
	if server.Addr().Is6() {
		any4 = netip.IPv6Unspecified()
	}
	conn, err := packetio.Open(ctx, netip.AddrPortFrom(any4, 0), udp.Config{Refusals: true, Plain: c.Plain})
	if err != nil {
		return nil, err
	}
	x := &exchange{conn: packetio.TraceTo(server, conn, c.Trace), server: server, noReorder: c.NoReorder, progress: c.Progress}
	messages := maxClientMessages
	if c.NoOptions || c.Window == 1 {
		messages = lockstepMessages
	}
	x.in = make([]udp.Message, min(messages, conn.Limits().Messages))
	for i := range x.in {
		x.in[i].Data = buffers.Get().(*[1 << 16]byte)[:]
	}
	x.out = packetio.NewBatch(x.conn, maxClientMessages, 0)
	return x, nil
}
