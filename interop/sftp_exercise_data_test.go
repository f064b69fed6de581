//go:build unix

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testSizes(t *testing.T, x *meeting) {
	var ops [][]string
	for _, size := range sftpSizes {
		name := fmt.Sprint("f", size)
		x.write(t, x.served, name, content(size))
		local := x.write(t, x.local, "up-"+name, content(size + 1)[:size])
		ops = append(ops, []string{"get", x.remote(name), filepath.Join(x.local, name)},
			[]string{"put", local, x.remote("up-" + name)})
	}
	// This replaces an existing longer file.
	x.write(t, x.served, "over", content(400_000))
	ops = append(ops, []string{"put", filepath.Join(x.local, "up-f32769"), x.remote("over")})
	x.must(t, ops...)
	for _, size := range sftpSizes {
		name := fmt.Sprint("f", size)
		wantFile(t, filepath.Join(x.local, name), content(size))
		wantFile(t, filepath.Join(x.served, "up-"+name), content(size + 1)[:size])
	}
	wantFile(t, filepath.Join(x.served, "over"), content(32770)[:32769])
}

func testResume(t *testing.T, x *meeting) {
	const size = 1<<20 + 7
	data := content(size)
	up := x.write(t, x.local, "up", data)
	x.write(t, x.served, "whole", data)
	var ops [][]string
	have := []int{0, 1, 32768, size / 2, size - 1, size}
	for _, n := range have {
		name := fmt.Sprint("part", n)
		local := x.write(t, x.local, name, data[:n])
		x.write(t, x.served, name, data[:n])
		ops = append(ops, []string{"reget", x.remote("whole"), local}, []string{"reput", up, x.remote(name)})
	}
	x.must(t, ops...)
	for _, n := range have {
		name := fmt.Sprint("part", n)
		wantFile(t, filepath.Join(x.local, name), data)
		wantFile(t, filepath.Join(x.served, name), data)
	}
}

// largeMiB is more than haul sends before it first records its progress, in MiB.
const largeMiB = 34

// largeFile writes a file of mib MiB, mostly zeros.
func largeFile(t *testing.T, name string, mib int64) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(mib << 20); err != nil {
		t.Fatal(err)
	}
	for i, off := range []int64{0, 2<<20 - 5, mib << 19, mib<<20 - 300_000} {
		if _, err := f.WriteAt(content(300_000-i), off); err != nil {
			t.Fatal(err)
		}
	}
}

// sameFiles compares two files without reading them into memory.
func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	var f [2]*os.File
	for i, name := range []string{a, b} {
		var err error
		if f[i], err = os.Open(name); err != nil {
			t.Fatal(err)
		}
		defer f[i].Close()
	}
	var bufs [2][]byte
	bufs[0], bufs[1] = make([]byte, 1<<20), make([]byte, 1<<20)
	for off := int64(0); ; off += 1 << 20 {
		n0, err0 := f[0].ReadAt(bufs[0], off)
		n1, err1 := f[1].ReadAt(bufs[1], off)
		if n0 != n1 || !bytes.Equal(bufs[0][:n0], bufs[1][:n1]) {
			t.Fatalf("%s and %s differ in the MiB at %d (%d and %d bytes)", a, b, off, n0, n1)
		}
		if err0 == io.EOF && err1 == io.EOF {
			return
		}
		if err0 != nil && err0 != io.EOF || err1 != nil && err1 != io.EOF {
			t.Fatal(err0, err1)
		}
	}
}

func testLarge(t *testing.T, x *meeting) {
	if testing.Short() {
		t.Skip("short")
	}
	there, up := filepath.Join(x.served, "there"), filepath.Join(x.local, "up")
	largeFile(t, there, largeMiB)
	x.must(t, []string{"get", x.remote("there"), up}, []string{"put", up, x.remote("back")})
	sameFiles(t, there, filepath.Join(x.served, "back"))
}

// Reading and writing in the middle of a file does not change the rest.
func testPieces(t *testing.T, x *meeting) {
	data := content(500_000)
	x.write(t, x.served, "file", data)
	r := x.remote("file")
	ops := [][]string{
		{"write", r, "0", "010203"}, {"write", r, "499999", "ff"}, {"write", r, "500010", "aabb"}, {"write", r, "250000", strings.Repeat("5a", 70_000)},
		{"read", r, "0", "10"}, {"read", r, "499990", "100"}, {"read", r, "600000", "5"}, {"read", r, "100000", "300000"},
	}
	a := x.must(t, ops...)
	data = append(data, make([]byte, 12)...)
	copy(data, "\x01\x02\x03")
	data[499_999] = 0xff
	copy(data[500_010:], "\xaa\xbb")
	copy(data[250_000:320_000], bytes.Repeat([]byte{0x5a}, 70_000))
	wantFile(t, filepath.Join(x.served, "file"), data)
	for i, want := range map[int][]byte{4: data[:10], 5: data[499_990:], 6: nil, 7: data[100_000:400_000]} {
		var got string
		if len(a[i].Value) > 0 {
			if err := json.Unmarshal(a[i].Value, &got); err != nil {
				t.Fatal(err)
			}
		}
		if got != fmt.Sprintf("%x", want) {
			t.Errorf("%q: %d bytes, not the file's %d", ops[i], len(got)/2, len(want))
		}
	}
}

// A published file is complete, and nothing else remains.
func testPublish(t *testing.T, x *meeting) {
	x.write(t, x.served, "over", content(10))
	up := x.write(t, x.local, "up", content(700_000))
	x.must(t, []string{"publish", up, x.remote("new")}, []string{"publish", up, x.remote("over")})
	wantFile(t, filepath.Join(x.served, "new"), content(700_000))
	wantFile(t, filepath.Join(x.served, "over"), content(700_000))
	if left := readDir(t, x.served); len(left) != 2 {
		t.Errorf("left is %v", left)
	}
}

func testCopy(t *testing.T, x *meeting) {
	for _, size := range []int{0, 1, 1 << 20} {
		x.write(t, x.served, fmt.Sprint(size), content(size))
		x.must(t, []string{"copy", x.remote(fmt.Sprint(size)), x.remote("copy")})
		wantFile(t, filepath.Join(x.served, "copy"), content(size))
	}
}
