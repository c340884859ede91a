// Command wiregen writes the TypeScript side of the wire contract from the Go
// types in api/wire.go.
//
//	go run ./tests/wiregen          writes web/src/wire.gen.ts
//	go run ./tests/wiregen -check   fails when the file differs
//
// Run it in the repository root. It reads the source and not the compiled types,
// because the comments of the contract belong into both languages.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
)

const (
	sourceFile = "api/wire.go"
	outputFile = "web/src/wire.gen.ts"
)

func main() {
	check := flag.Bool("check", false, "fail when "+outputFile+" differs from what would be written")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "wiregen:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	src, err := os.ReadFile(sourceFile)
	if err != nil {
		return err
	}
	want, err := generate(sourceFile, src)
	if err != nil {
		return err
	}
	got, err := os.ReadFile(outputFile)
	if err == nil && bytes.Equal(got, want) {
		return nil
	}
	if check {
		return fmt.Errorf("%s differs from %s: run go run ./tests/wiregen and commit the result", outputFile, sourceFile)
	}
	return os.WriteFile(outputFile, want, 0o644)
}
