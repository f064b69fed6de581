package flow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/haul-project/haul/internal/repeat"
)

// A peer sends requests and reads the answers, in pieces of any size; the handler uses them in
// pieces of any size too. A request is a two-byte number n, followed by n bytes. Its answer is n
// bytes, and then 40 bytes for the last of them, written one by one by Again.
type simulation struct {
	t       testing.TB
	r       *rand.Rand
	f       Flow
	max     Limits
	scratch []byte
	shared  []byte // received data while nothing is held

	coming []byte // not received yet
	want   []byte // the answers
	sent   []byte

	parts     int // parts of the current answer that are still to be written
	room      int // number of bytes that the socket accepts now
	calls     int
	callsLast int // calls after the peer's data has ended
	largest   int // largest number of held bytes so far
	closeAt   int // the request that closes the connection
	requests  int
}

const answerParts = 40

func (w *simulation) Call(data []byte) int {
	w.calls++
	if w.f.Ended() {
		w.callsLast++
	}
	if w.parts > 0 {
		w.part(w.parts)
		return 0
	}
	used := 0
	for range 1 + w.r.IntN(3) {
		n, ok := request(data[used:])
		if !ok {
			break
		}
		body := data[used+2 : used+2+n]
		used += 2 + n
		w.requests++
		if _, err := w.f.Write(body, w, w.max); err != nil {
			w.t.Fatalf("write of %d bytes: %v", n, err)
		}
		if w.requests == w.closeAt {
			w.f.Close()
			break
		}
		if n%7 == 3 {
			w.part(answerParts)
			break
		}
	}
	return used
}

// part writes a part of a long answer.
func (w *simulation) part(left int) {
	if _, err := w.f.Write([]byte{byte(left)}, w, w.max); err != nil {
		w.t.Fatal(err)
	}
	if w.parts = left - 1; w.parts > 0 {
		w.f.Again()
	}
}

func (w *simulation) Send(b []byte, last bool) (int, error) {
	if len(b) == 0 {
		w.t.Fatal("nothing is sent by a system call")
	}
	if last && !w.f.closes {
		w.t.Fatal("last, and it is not closed")
	}
	n := min(len(b), w.room)
	w.room -= n
	w.sent = append(w.sent, b[:n]...)
	return n, nil
}

func request(data []byte) (n int, ok bool) {
	if len(data) < 2 {
		return 0, false
	}
	n = int(binary.BigEndian.Uint16(data))
	return n, len(data) >= 2+n
}

// fill makes requests with their expected answers.
func (w *simulation) fill(requests, longest int) {
	for i := range requests {
		n := w.r.IntN(longest)
		body := make([]byte, n)
		for j := range body {
			body[j] = byte(w.r.Uint32())
		}
		w.coming = append(binary.BigEndian.AppendUint16(w.coming, uint16(n)), body...)
		if w.closeAt > 0 && i >= w.closeAt {
			continue
		}
		w.want = append(w.want, body...)
		if n%7 == 3 && i+1 != w.closeAt {
			for p := answerParts; p > 0; p-- {
				w.want = append(w.want, byte(p))
			}
		}
	}
}

// step performs the driver's next step.
func (w *simulation) step(next Next) (Next, error) {
	w.largest = max(w.largest, len(w.f.held))
	switch next {
	case Blocked:
		if len(w.f.unsent) == 0 {
			w.t.Fatal("blocked, and nothing is unsent")
		}
		w.room = w.r.IntN(1 << w.r.IntN(17))
		return w.f.Flush(w)
	case Again:
		return w.turn(w.f.Held())
	}
	if len(w.coming) == 0 {
		w.f.End()
		return w.turn(w.f.Held())
	}
	if !w.f.Holds() {
		n := copy(w.shared[:1+w.r.IntN(len(w.shared))], w.coming)
		w.coming = w.coming[n:]
		next, err := w.turn(w.shared[:n])
		clear(w.shared) // held data must be a copy
		return next, err
	}
	room := w.f.Room()
	if len(room) < MinRoom {
		w.t.Fatalf("room for %d bytes", len(room))
	}
	n := copy(room[:1+w.r.IntN(len(room))], w.coming)
	w.coming = w.coming[n:]
	w.f.Received(n)
	return w.turn(w.f.Held())
}

func (w *simulation) turn(data []byte) (Next, error) {
	if len(w.f.unsent) > 0 {
		w.t.Fatal("a turn while bytes are unsent")
	}
	next, err := w.f.Turn(data, &w.scratch, w, w.max)
	clear(w.scratch[:cap(w.scratch)]) // unsent data must be a copy
	return next, err
}

// run runs a simulation. It must end after a number of steps proportional to its bytes.
func (w *simulation) run() {
	next, err := w.turn(nil)
	for steps := 0; next != Over && err == nil; steps++ {
		if steps > 50*(len(w.want)+1000) {
			w.t.Fatalf("no end: waits for %d", next)
		}
		next, err = w.step(next)
	}
	switch {
	case err != nil:
		w.t.Fatal(err)
	case !bytes.Equal(w.sent, w.want):
		w.t.Fatalf("%d bytes were sent, want %d", len(w.sent), len(w.want))
	case w.closeAt == 0 && w.callsLast == 0:
		w.t.Fatal("the handler does not know of the end")
	case w.f.unsent != nil || w.closeAt == 0 && w.f.held != nil:
		w.t.Fatal("buffers are left")
	}
}

// simulate runs a simulation whose requests have less than 1<<bits bytes.
func simulate(t testing.TB, seed uint64, bits int) {
	r := rand.New(rand.NewPCG(seed, 1))
	longest := 1 + r.IntN(1<<r.IntN(bits+1))
	w := &simulation{t: t, r: r, max: Limits{Held: longest + 2, Unsent: 4 * 1 << 16}, shared: make([]byte, 1+r.IntN(1<<bits)), room: r.IntN(16 << bits)}
	requests := 1 + r.IntN(60)
	if r.IntN(3) == 0 {
		w.closeAt = 1 + r.IntN(requests)
	}
	w.fill(requests, longest)
	w.run()
	if most := len(w.shared) + 2*longest + maxRoom + MinRoom; w.largest > most {
		t.Errorf("%d bytes were held, and %d are the most", w.largest, most)
	}
}

// For any pieces in which a peer sends and reads, and a handler uses and writes, each request
// gets its answer, in order.
func TestSimulation(t *testing.T) {
	const seeds = 200
	repeat.OnFailure(t)
	for seed := range uint64(seeds) {
		t.Logf("seed %d", seed)
		simulate(t, seed, 16)
	}
}

func FuzzSimulation(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { simulate(t, seed, 9) })
}

// A script is a driver with fixed results.
type script struct {
	f     *Flow
	call  func(data []byte) int
	room  int
	fails error
	sent  []byte
}

func (s *script) Call(data []byte) int { return s.call(data) }

func (s *script) Send(b []byte, _ bool) (int, error) {
	n := min(len(b), s.room)
	s.room -= n
	s.sent = append(s.sent, b[:n]...)
	return n, s.fails
}

// A request may be as long as Held, and no longer.
func TestHeld(t *testing.T) {
	var f Flow
	var scratch []byte
	s := &script{f: &f, call: func([]byte) int { return 0 }}
	limits := Limits{Held: 10, Unsent: 10}
	if next, err := f.Turn(make([]byte, 9), &scratch, s, limits); next != Partial || err != nil {
		t.Errorf("9 of 10 bytes: %d, %v", next, err)
	}
	copy(f.Room(), "x")
	f.Received(1)
	if next, err := f.Turn(f.Held(), &scratch, s, limits); next != Over || !errors.Is(err, ErrHeld) {
		t.Errorf("10 of 10 bytes: %d, %v", next, err)
	}
}

// A handler may write more than a peer reads, up to Unsent. More ends the connection, and nothing
// follows half an answer.
func TestUnsent(t *testing.T) {
	for _, more := range []int{0, 1} {
		var f Flow
		var scratch []byte
		limits := Limits{Held: 10, Unsent: 100_000}
		const room = 1000
		s := &script{f: &f, room: room}
		s.call = func([]byte) int {
			n, err := f.Write(make([]byte, room+limits.Unsent+more), s, limits)
			wants := more > 0
			if errors.Is(err, ErrUnsent) != wants || wants && n != room {
				t.Errorf("write of %d more than may be: %d, %v", more, n, err)
			}
			if wants {
				if _, again := f.Write([]byte("x"), s, limits); !errors.Is(again, ErrUnsent) {
					t.Errorf("write after the failure: %v", again)
				}
			}
			return 0
		}
		next, err := f.Turn(nil, &scratch, s, limits)
		if more == 0 {
			if next != Blocked || err != nil {
				t.Errorf("as much as may be: %d, %v", next, err)
			}
		} else if next != Over || !errors.Is(err, ErrUnsent) {
			t.Errorf("too much: %d, %v", next, err)
		}
		if len(s.sent) != room {
			t.Errorf("%d bytes were sent", len(s.sent))
		}
	}
}

// A small answer counts too, if the peer has not read it.
func TestUnsentAfterTurn(t *testing.T) {
	for _, most := range []int{9, 10} {
		var f Flow
		var scratch []byte
		s := &script{f: &f, room: 5}
		s.call = func([]byte) int {
			_, _ = f.Write(make([]byte, 15), s, Limits{})
			return 0
		}
		next, err := f.Turn(nil, &scratch, s, Limits{Unsent: most, Held: 1})
		if wants := most < 10; errors.Is(err, ErrUnsent) != wants || !wants && next != Blocked {
			t.Errorf("10 bytes unsent of %d: %d, %v", most, next, err)
		}
	}
}

// A failed send ends a connection, and so does Close, after which nothing is written.
func TestEnds(t *testing.T) {
	var f Flow
	var scratch []byte
	broken := errors.New("broken")
	s := &script{f: &f, fails: broken, room: 1}
	s.call = func([]byte) int {
		_, _ = f.Write([]byte("answer"), s, Limits{})
		return 0
	}
	if next, err := f.Turn(nil, &scratch, s, Limits{Held: 10}); next != Over || err != broken {
		t.Errorf("a broken connection: %d, %v", next, err)
	}
	f = Flow{}
	s = &script{f: &f, room: 3}
	s.call = func(data []byte) int {
		_, _ = f.Write([]byte("answer"), s, Limits{})
		f.Close()
		if n, err := f.Write([]byte("more"), s, Limits{}); n != 0 || !errors.Is(err, ErrClosed) {
			t.Errorf("write after Close: %d, %v", n, err)
		}
		return 1
	}
	if next, err := f.Turn([]byte("ab"), &scratch, s, Limits{Held: 10, Unsent: 3}); next != Blocked || err != nil {
		t.Errorf("closed, and unsent: %d, %v", next, err)
	}
	s.room = 10
	if next, err := f.Flush(s); next != Over || err != nil || string(s.sent) != "answer" {
		t.Errorf("closed: %d, %v, sent %q", next, err, s.sent)
	}
}

// A request that arrives completely, and its answer, allocate nothing.
func TestAllocations(t *testing.T) {
	var f Flow
	scratch := make([]byte, 0, 1024)
	request, answer := make([]byte, 100), make([]byte, 1000)
	s := &script{f: &f, sent: make([]byte, 0, 1<<20)}
	s.call = func(data []byte) int {
		_, _ = f.Write(answer, s, Limits{})
		return len(data)
	}
	if n := testing.AllocsPerRun(100, func() {
		s.room, s.sent = len(answer), s.sent[:0]
		if next, err := f.Turn(request, &scratch, s, Limits{Held: 10}); next != Idle || err != nil {
			t.Fatal(next, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkTurn measures a turn with several received requests and their answers.
func BenchmarkTurn(b *testing.B) {
	for _, requests := range []int{1, 16} {
		b.Run(strconv.Itoa(requests), func(b *testing.B) {
			var f Flow
			scratch := make([]byte, 0, 32<<10)
			request, answer := make([]byte, 100), make([]byte, 1000)
			s := &script{f: &f, sent: make([]byte, 0, requests*len(answer))}
			s.call = func([]byte) int {
				_, _ = f.Write(answer, s, Limits{})
				return len(request)
			}
			received := make([]byte, requests*len(request))
			for b.Loop() {
				s.room, s.sent = cap(s.sent), s.sent[:0]
				if next, err := f.Turn(received, &scratch, s, Limits{Held: 10}); next != Idle || err != nil || s.room > 0 {
					b.Fatal(next, err, s.room)
				}
			}
		})
	}
}
