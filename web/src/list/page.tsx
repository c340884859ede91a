import { TopBar } from '../bar';

export function ListPage(_props: { active: boolean }) {
  return (
    <div class="page">
      <TopBar title="list" page="list" />
    </div>
  );
}
