package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

const head = `// Generated from api/wire.go by tests/wiregen. Do not edit: change the Go types
// and run go run ./tests/wiregen.
//
// Address is "0x" and 16 lower-case hex digits, Offset "0x" and hex without
// padding, 64-bit ids are decimal strings. Times are Unix epoch milliseconds, sizes
// bytes, rates per second, CPU percent of one core.
`

// generate returns the TypeScript interfaces of the exported structs of one Go
// file, in the order of the file.
//
// Errors: a type or a tag that has no counterpart in the contract, with its place.
func generate(name string, src []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	g := generator{fset: fset, structs: map[string]bool{}}
	var specs []*ast.TypeSpec
	docs := map[*ast.TypeSpec]*ast.CommentGroup{}
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.TYPE {
			continue
		}
		for _, s := range d.Specs {
			t := s.(*ast.TypeSpec)
			if !t.Name.IsExported() {
				continue
			}
			if _, ok := t.Type.(*ast.StructType); !ok {
				return nil, g.errorf(t, "%s is not a struct", t.Name)
			}
			docs[t] = d.Doc
			if t.Doc != nil {
				docs[t] = t.Doc
			}
			specs = append(specs, t)
			g.structs[t.Name.Name] = true
		}
	}
	g.out.WriteString(head)
	for _, t := range specs {
		if err := g.structType(t, docs[t]); err != nil {
			return nil, err
		}
	}
	return g.out.Bytes(), nil
}

type generator struct {
	fset    *token.FileSet
	structs map[string]bool
	out     bytes.Buffer
}

func (g *generator) structType(t *ast.TypeSpec, doc *ast.CommentGroup) error {
	g.out.WriteByte('\n')
	g.comment("", doc)
	fmt.Fprintf(&g.out, "export interface %s {\n", t.Name.Name)
	for _, f := range t.Type.(*ast.StructType).Fields.List {
		if err := g.field(f); err != nil {
			return err
		}
	}
	g.out.WriteString("}\n")
	return nil
}

func (g *generator) field(f *ast.Field) error {
	if len(f.Names) != 1 || !f.Names[0].IsExported() {
		return g.errorf(f, "a contract field has one exported name of its own")
	}
	if f.Tag == nil {
		return g.errorf(f, "%s has no json tag", f.Names[0])
	}
	text, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return g.errorf(f, "tag of %s: %w", f.Names[0], err)
	}
	tag := reflect.StructTag(text)
	name, option, _ := strings.Cut(tag.Get("json"), ",")
	if name == "" || name == "-" {
		return g.errorf(f, "%s has no json name", f.Names[0])
	}
	optional := ""
	switch option {
	case "":
	case "omitzero":
		optional = "?"
	default:
		return g.errorf(f, "%s: json option %q is not part of the contract", f.Names[0], option)
	}
	ts, err := g.typeOf(f.Type)
	if err != nil {
		return err
	}
	switch w := tag.Get("wire"); w {
	case "":
	case "nullable":
		ts += " | null"
	default:
		return g.errorf(f, "%s: unknown wire tag %q", f.Names[0], w)
	}
	g.comment("\t", f.Doc)
	fmt.Fprintf(&g.out, "\t%s%s: %s;", name, optional, ts)
	if c := strings.TrimSpace(f.Comment.Text()); c != "" {
		fmt.Fprintf(&g.out, " // %s", c)
	}
	g.out.WriteByte('\n')
	return nil
}

// typeOf returns the TypeScript type of a Go type expression.
func (g *generator) typeOf(e ast.Expr) (string, error) {
	switch t := e.(type) {
	case *ast.Ident:
		switch t.Name {
		case "string":
			return "string", nil
		case "bool":
			return "boolean", nil
		case "int", "int32", "int64", "uint16", "uint32", "uint64", "float64":
			return "number", nil
		}
		if g.structs[t.Name] {
			return t.Name, nil
		}
		return "", g.errorf(e, "%s is no contract type", t.Name)
	case *ast.StarExpr:
		in, err := g.typeOf(t.X)
		return in + " | null", err
	case *ast.ArrayType:
		in, err := g.typeOf(t.Elt)
		if err == nil && t.Len != nil {
			err = g.errorf(e, "a contract list is a slice")
		}
		if strings.Contains(in, " ") {
			in = "(" + in + ")"
		}
		return in + "[]", err
	case *ast.MapType:
		key, err := g.typeOf(t.Key)
		if err == nil && key != "string" {
			err = g.errorf(e, "a contract map has string keys")
		}
		if err != nil {
			return "", err
		}
		in, err := g.typeOf(t.Value)
		return "Record<string, " + in + ">", err
	}
	return "", g.errorf(e, "%T is no contract type", e)
}

func (g *generator) comment(indent string, doc *ast.CommentGroup) {
	for line := range strings.Lines(doc.Text()) {
		g.out.WriteString(strings.TrimRight(indent+"// "+line, " \n") + "\n")
	}
}

func (g *generator) errorf(n ast.Node, format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{g.fset.Position(n.Pos())}, args...)...)
}
