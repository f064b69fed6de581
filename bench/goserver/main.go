// Goserver is a TFTP server as an ordinary Go programmer would write it: the net package, one
// goroutine and one socket for each transfer, one block at a time. The suite compares haul's
// loops and batches with it, because similar servers cannot be fetched everywhere.
//
// It supports RFC 1350 with blksize and tsize. It keeps uploads in memory, where they can be read
// again.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"os"
	"path"
	"strings"
	"sync"
)

const (
	maxTransfers = 16384   // each transfer has a goroutine, a socket and an open file; further transfers are refused
	maxStored    = 4 << 30 // largest total size of all uploads, in bytes
	maxUpload    = 1 << 30 // largest size of one upload, in bytes
)

func main() {
	listen := flag.String("listen", "127.0.0.1:6969", "`address` to serve on")
	dir := flag.String("dir", ".", "`directory` to serve")
	flag.Parse()
	log.Fatal("goserver: ", run(*listen, *dir))
}

// run serves dir at the address `listen` until an error occurs, and returns the error.
func run(listen, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	addr, err := net.ResolveUDPAddr("udp", listen)
	if err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		return err
	}
	s := &server{root: root, local: addr.IP, uploads: map[string][]byte{}, free: make(chan struct{}, maxTransfers)}
	return s.serve(conn)
}

type server struct {
	root  *os.Root
	local net.IP        // address of the server; transfers answer from it, because a client knows only this address
	free  chan struct{} // has one element for each running transfer

	mu      sync.Mutex
	uploads map[string][]byte
	stored  int64 // total size of the uploads in bytes; guarded by mu
}

func (s *server) serve(conn *net.UDPConn) error {
	buf := make([]byte, 1<<16)
	for {
		n, peer, err := conn.ReadFromUDP(buf)
		if err != nil {
			return err
		}
		req, err := parseRequest(buf[:n])
		if err != nil {
			continue // ignore an invalid packet
		}
		select {
		case s.free <- struct{}{}:
			go s.handle(peer, req)
		default:
			_, _ = conn.WriteToUDP(errorPacket(codeUndefined, "too many transfers"), peer)
		}
	}
}

func (s *server) handle(peer *net.UDPAddr, req request) {
	defer func() { <-s.free }()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: s.local})
	if err != nil {
		log.Printf("open a socket for %v: %v", peer, err)
		return
	}
	defer conn.Close()
	t := &transfer{conn: conn, peer: peer, block: req.block}
	if req.write {
		err = s.receive(t, req)
	} else {
		err = s.send(t, req)
	}
	if err != nil {
		log.Printf("%v %s: %v", peer, req.name, err)
		if _, refused := errors.AsType[*refusal](err); !refused {
			_, _ = conn.WriteToUDP(errorPacket(code(err), err.Error()), peer)
		}
	}
}

// send answers a read request.
func (s *server) send(t *transfer, req request) error {
	r, size, err := s.open(req.name)
	if err != nil {
		return err
	}
	defer r.Close()
	if oack := req.confirm(size); oack != nil {
		if _, err := t.exchange(oack, opACK, 0); err != nil {
			return err
		}
	}
	return t.send(r)
}

func (s *server) receive(t *transfer, req request) error {
	first := req.confirm(req.size)
	if first == nil {
		first = ackPacket(0)
	}
	data, last, err := t.receive(first, maxUpload)
	if err != nil {
		return err
	}
	if err := s.store(req.name, data); err != nil {
		return err
	}
	return t.finish(last)
}

// open opens the upload with the given name or, if there is no such upload, the file in the served
// directory. It also returns the size.
func (s *server) open(name string) (io.ReadCloser, int64, error) {
	name = clean(name)
	s.mu.Lock()
	data, ok := s.uploads[name]
	s.mu.Unlock()
	if ok {
		return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
	}
	f, err := s.root.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w: not a regular file", name, fs.ErrNotExist)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// store keeps an upload. It replaces an earlier upload of the same name.
func (s *server) store(name string, data []byte) error {
	name = clean(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := s.stored - int64(len(s.uploads[name])) + int64(len(data))
	if stored > maxStored {
		return fmt.Errorf("store %s: uploads fill the %d bytes of memory they may have", name, int64(maxStored))
	}
	s.stored = stored
	s.uploads[name] = data
	return nil
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }
