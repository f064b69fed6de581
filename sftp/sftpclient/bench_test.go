package sftpclient

import (
	"fmt"
	"io"
	"testing"
)

// These benchmarks measure the client alone, without SSH, a network or a disk.

func benchmark(b *testing.B, config Config, n int64, f func(*File) error) {
	c := newZerosClient(b, config)
	defer c.Close()
	file, err := c.Create(b.Context(), "zeros")
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	b.SetBytes(n)
	b.ReportAllocs()
	for b.Loop() {
		if err := f(file); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFill(b *testing.B) {
	const n = 64 << 20
	benchmark(b, Config{}, n, func(f *File) error {
		_, err := f.FillFrom(b.Context(), zeroSource{}, 0, n)
		return err
	})
}

func BenchmarkReadAt(b *testing.B) {
	p := make([]byte, 64<<20)
	benchmark(b, Config{}, int64(len(p)), func(f *File) error {
		_, err := f.ReadAt(p, 1<<40)
		return err
	})
}

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10, 1 << 20, 4 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			p := make([]byte, size)
			benchmark(b, Config{}, int64(size), func(f *File) error {
				_, err := io.ReadFull(f, p)
				return err
			})
		})
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10, 1 << 20, 4 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			p := make([]byte, size)
			benchmark(b, Config{}, int64(size), func(f *File) error {
				_, err := f.Write(p)
				return err
			})
		})
	}
}

func BenchmarkStat(b *testing.B) {
	c := newZerosClient(b, Config{})
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Stat(b.Context(), "zeros"); err != nil {
			b.Fatal(err)
		}
	}
}
